-- Runs once, when the database is created. Creates the roles of api, worker and operator, and a login for each. The
-- migrations grant the roles their privileges. `psql` reads the passwords from the environment.
\getenv api_password REWARDS_API_PASSWORD
\getenv worker_password REWARDS_WORKER_PASSWORD
\getenv operator_password REWARDS_OPERATOR_PASSWORD

CREATE ROLE card_rewards_api NOLOGIN;
CREATE ROLE card_rewards_worker NOLOGIN;
CREATE ROLE card_rewards_admin NOLOGIN;

CREATE ROLE rewards_api LOGIN PASSWORD :'api_password' IN ROLE card_rewards_api;
CREATE ROLE rewards_worker LOGIN PASSWORD :'worker_password' IN ROLE card_rewards_worker;
CREATE ROLE rewards_operator LOGIN PASSWORD :'operator_password' IN ROLE card_rewards_admin;
