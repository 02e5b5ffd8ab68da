"""ease.ml's operators, hook, triggers, links and listeners for Airflow."""
