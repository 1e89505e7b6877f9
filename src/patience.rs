//! How long others wait for the sink: until its patience ends, sleeps and requests go on; then they end at
//! once.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// Shared by those who wait and the one who ends it. Without [`Patience::end`] it lasts for ever.
#[derive(Clone, Debug, Default)]
pub struct Patience(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_over: Mutex<bool>,
    sleepers: Condvar,
    requests: Notify,
}

impl Patience {
    /// Ends it.
    pub fn end(&self) {
        *self.0.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.sleepers.notify_all();
        self.0.requests.notify_waiters();
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        *self.0.is_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps, no longer than it lasts; whether it still does.
    #[must_use]
    pub fn sleep(&self, pause: Duration) -> bool {
        let is_over = self.0.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.sleepers.wait_timeout_while(is_over, pause, |is_over| !*is_over);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits for its end.
    pub async fn ended(&self) {
        // Before the look: an end in between wakes it.
        let woken = self.0.requests.notified();
        if !self.is_over() {
            woken.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn its_end_wakes_sleeps_and_requests() {
        let patience = Patience::default();
        assert!(patience.sleep(Duration::from_millis(1)));
        let start = Instant::now();
        let sleeper = std::thread::spawn({
            let patience = patience.clone();
            move || patience.sleep(LONG)
        });
        let request = std::thread::spawn({
            let patience = patience.clone();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            move || {
                runtime
                    .unwrap()
                    .block_on(async { tokio::time::timeout(LONG, patience.ended()).await })
            }
        });
        std::thread::sleep(Duration::from_millis(20));
        patience.end();
        assert!(!sleeper.join().unwrap());
        assert!(request.join().unwrap().is_ok());
        assert!(patience.is_over() && !patience.sleep(LONG) && start.elapsed() < LONG);
    }
}
