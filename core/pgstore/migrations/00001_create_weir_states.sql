-- Package pgstore of github.com/weir-go/weir keeps the states of limits in this table, one row for each rule of each key.
-- The other comments are for github.com/pressly/goose and Atlas.

-- +goose Up
CREATE UNLOGGED TABLE IF NOT EXISTS weir_states (
	id      uuid   PRIMARY KEY,
	version bigint NOT NULL,
	expires bigint NOT NULL,
	state   bytea  NOT NULL
) WITH (
	fillfactor = 50,
	autovacuum_vacuum_scale_factor = 0,
	autovacuum_vacuum_threshold = 10000,
	autovacuum_vacuum_cost_delay = 0,
	autovacuum_analyze_scale_factor = 0.5
);

-- +goose Down
DROP TABLE IF EXISTS weir_states;
