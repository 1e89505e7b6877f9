//! tidegate: a flow collector that writes to ClickHouse and keeps its books balanced.
