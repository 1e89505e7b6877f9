//! What an operator sees: the table of metrics, the log, the limit on repeated lines, and the wall clock.

mod clock;
mod log;
mod metrics;
mod names;
mod rate_limit;

pub use self::clock::unix_ms;
pub use self::log::{init as init_log, set_level as set_log_level};
pub use self::metrics::Metrics;
pub use names::{METRICS, MetricKind, MetricName, MetricSpec};
pub use rate_limit::RateLimit;
