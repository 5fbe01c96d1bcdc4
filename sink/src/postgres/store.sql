CREATE TABLE instar.format (version int NOT NULL);
CREATE TABLE instar.sinks (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline text NOT NULL,
    name text NOT NULL,
    decided bigint NOT NULL DEFAULT 0,
    stop_namespace text,
    stop_table text,
    stop_epoch bigint,
    stop_message text,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (pipeline, name)
);
CREATE TABLE instar.lanes (
    sink int NOT NULL REFERENCES instar.sinks,
    namespace text NOT NULL,
    name text NOT NULL,
    lane int NOT NULL,
    position bigint NOT NULL,
    seq bigint NOT NULL,
    epoch bigint NOT NULL,
    moved_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (sink, namespace, name, lane)
) WITH (fillfactor = 50);
CREATE TABLE instar.outcomes (
    sink int NOT NULL REFERENCES instar.sinks,
    epoch bigint NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    outcome text NOT NULL,
    reason text NOT NULL,
    target_ddl text[] NOT NULL,
    first_at timestamptz NOT NULL DEFAULT now(),
    recorded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (sink, epoch, namespace, name)
);
CREATE INDEX outcomes_open ON instar.outcomes (sink) WHERE outcome IN ('pending', 'held', 'queued', 'stopped');
CREATE TABLE instar.holds (
    sink int NOT NULL REFERENCES instar.sinks,
    namespace text NOT NULL,
    name text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('change', 'value')),
    epoch bigint NOT NULL,
    reason text NOT NULL,
    proposed text[] NOT NULL,
    since timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (sink, namespace, name)
);
CREATE TABLE instar.queue (
    sink int NOT NULL REFERENCES instar.sinks,
    namespace text NOT NULL,
    name text NOT NULL,
    epoch bigint NOT NULL,
    PRIMARY KEY (sink, namespace, name, epoch)
);
CREATE TABLE instar.blocks (
    sink int NOT NULL REFERENCES instar.sinks,
    namespace text NOT NULL,
    name text NOT NULL,
    epoch bigint NOT NULL,
    PRIMARY KEY (sink, namespace, name)
);
CREATE TABLE instar.retired (
    sink int NOT NULL REFERENCES instar.sinks,
    namespace text NOT NULL,
    name text NOT NULL,
    since timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (sink, namespace, name)
);
CREATE TABLE instar.approvals (
    sink int NOT NULL REFERENCES instar.sinks,
    namespace text NOT NULL,
    name text NOT NULL,
    approval text NOT NULL,
    approved_by text NOT NULL,
    approved_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (sink, namespace, name)
);
CREATE TABLE instar.tables (
    sink int NOT NULL REFERENCES instar.sinks,
    namespace text NOT NULL,
    name text NOT NULL,
    version bigint NOT NULL,
    shape text NOT NULL,
    since timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (sink, namespace, name)
);
CREATE TABLE instar.intents (
    sink int NOT NULL REFERENCES instar.sinks,
    namespace text NOT NULL,
    name text NOT NULL,
    epoch bigint NOT NULL,
    plan text NOT NULL,
    begun_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (sink, namespace, name)
);
CREATE TABLE instar.audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sink int NOT NULL REFERENCES instar.sinks,
    at timestamptz NOT NULL DEFAULT now(),
    who text NOT NULL,
    what text NOT NULL
);
INSERT INTO instar.format VALUES (1);
