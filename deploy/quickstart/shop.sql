CREATE DATABASE shop CHARACTER SET utf8mb4;
USE shop;
CREATE TABLE customers (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(80) NOT NULL, email VARCHAR(120), fax VARCHAR(20), region CHAR(2) NOT NULL DEFAULT 'eu');
CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, customer INT NOT NULL, quantity INT NOT NULL, price DECIMAL(10, 2) NOT NULL, note VARCHAR(100), placed DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE events (id INT AUTO_INCREMENT PRIMARY KEY, kind VARCHAR(20) NOT NULL);
INSERT INTO customers (name, email, fax) SELECT CONCAT('Customer ', seq), CONCAT('c', seq, '@example.com'), CONCAT('+49-30-', seq) FROM seq_1_to_500;
INSERT INTO orders (customer, quantity, price) SELECT 1 + seq % 500, 1 + seq % 5, 1.00 + seq / 100 FROM seq_1_to_20000;
INSERT INTO events (kind) SELECT 'visit' FROM seq_1_to_5000;
