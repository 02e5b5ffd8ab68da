"""The core of ease.ml: everything but training and orchestration; imports neither torch nor Airflow."""
