# tidegate: the two commands of the README, and what developers use.

.PHONY: demo test test-long fuzz build bench bench-schema docs matrix

# Real flows in a real ClickHouse. DEMO_SECONDS=20 make demo ends by itself.
demo: build
	./target/release/tidegate clickhouse install
	./target/release/tidegate demo $(if $(DEMO_SECONDS),--seconds $(DEMO_SECONDS))

# Everything. Installs the Debian packages that some tests need, or says what to install and skips them.
test:
	tests/install-tools
	cargo test --locked

# Fifty million hostile datagrams, some minutes. HOSTILE_SEED and HOSTILE_INPUTS choose others. Then a ClickHouse
# that is killed a hundred times, one that is away for ten minutes, and one that hangs for ten minutes under full load.
test-long:
	HOSTILE_INPUTS=$${HOSTILE_INPUTS:-50000000} cargo test --release --locked --test hostile -- --nocapture
	KILLS=$${KILLS:-100} cargo test --release --locked --test kills -- --nocapture
	OUTAGE_SECONDS=$${OUTAGE_SECONDS:-600} cargo test --release --locked --test outage -- --nocapture
	HANG_SECONDS=$${HANG_SECONDS:-600} cargo test --release --locked --test hang -- --nocapture

# Each fuzz target for FUZZ_SECONDS, a minute by default.
fuzz:
	fuzz/run $${FUZZ_SECONDS:-60}

build:
	cargo build --release --locked

bench:
	cargo bench --locked

# Sort keys, codecs and indexes of `flows` in a real ClickHouse: 20 million rows for each of several tables. An hour,
# 20 GB in target/bench-schema. BENCH_SCHEMA="--candidates exporter-hour,time --days 1" measures less.
bench-schema: build
	./target/release/tidegate clickhouse install
	mkdir -p target/bench-schema
	python3 benches/schema/run.py $(BENCH_SCHEMA)
	python3 benches/schema/table.py

# Writes the documents that are generated from the code.
docs:
	UPDATE_DOCS=1 cargo test --locked --test contracts

# Writes the outcomes of faults between tidegate and ClickHouse, and how long /metrics took, into docs/delivery.md.
matrix:
	UPDATE_DOCS=1 cargo test --locked --test matrix
