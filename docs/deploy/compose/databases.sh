#!/bin/sh
# Run by the image of Postgres when its data folder is empty: a database for each server.
set -eu
psql --set ON_ERROR_STOP=1 --username postgres --set prefect="$PREFECT_DB_PASSWORD" --set mlflow="$MLFLOW_DB_PASSWORD" <<'SQL'
CREATE USER prefect PASSWORD :'prefect';
CREATE DATABASE prefect OWNER prefect;
CREATE USER mlflow PASSWORD :'mlflow';
CREATE DATABASE mlflow OWNER mlflow;
SQL
