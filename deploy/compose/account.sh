# Run once by MariaDB's image: the account of the source.
mariadb -uroot -p"$MARIADB_ROOT_PASSWORD" << SQL
CREATE USER cdc@'%' IDENTIFIED BY '$SOURCE_PASSWORD';
GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO cdc@'%';
SQL
