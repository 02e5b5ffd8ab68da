-- Run by the postgres image on an empty data folder: one server, three databases.
CREATE DATABASE airflow;
CREATE DATABASE mlflow;
CREATE DATABASE easeml;
