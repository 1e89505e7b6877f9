//! Somebody who asks for `/metrics` all the time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::common::get;

const PAUSE: Duration = Duration::from_millis(5);

pub struct Asker {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Asker {
    pub fn start(address: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::default());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut worst = Duration::ZERO;
            while !stopped.load(Ordering::Relaxed) {
                let asked = Instant::now();
                assert_eq!(get(address, "/metrics").0, 200);
                worst = worst.max(asked.elapsed());
                std::thread::sleep(PAUSE);
            }
            worst
        });
        Self { stop, thread }
    }

    /// The longest that an answer took.
    pub fn stop(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
