//! The HTTP server: small, bounded, on a thread of its own.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::sync::{Semaphore, oneshot};
use tracing::debug;

use super::routes::View;

/// Connections at a time; further ones wait to be accepted. Probes, one Prometheus and some people need
/// a handful.
const CONNECTIONS_MAX: usize = 64;

/// Request and answer must be done within this: a client that does not read must not keep others out.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(5);

/// How often samples of histograms are put into their buckets; without, they pile up until somebody
/// scrapes.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// After a failed accept, above all for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The management address cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("management: cannot listen on tcp {listen}: {error}; change management.listen")]
pub struct StartError {
    listen: SocketAddr,
    error: io::Error,
}

/// A bound management server; it stops when it is dropped.
#[derive(Debug)]
pub struct ManagementServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl ManagementServer {
    /// Binds `listen` and answers from `view`.
    ///
    /// # Errors
    ///
    /// The address is in use or not of this machine.
    pub fn start(listen: SocketAddr, view: Arc<View>) -> Result<Self, StartError> {
        Self::try_start(listen, view).map_err(|error| StartError { listen, error })
    }

    fn try_start(listen: SocketAddr, view: Arc<View>) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("manage".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = keep_up(&view) => {}
                    result = serve(listener, Arc::clone(&view)) => {
                        debug!(?result, "Management server ended.");
                    }
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for ManagementServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join()); // a panic there was printed and changes nothing here
        }
    }
}

async fn keep_up(view: &View) {
    loop {
        tokio::time::sleep(UPKEEP_INTERVAL).await;
        view.metrics.keep_up();
    }
}

async fn serve(listener: TcpListener, view: Arc<View>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // Closed never: the semaphore lives as long as this loop.
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else {
            return Ok(());
        };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let view = Arc::clone(&view);
        tokio::spawn(async move {
            let answer = service_fn(|request| respond(request, &view));
            let connection = hyper::server::conn::http1::Builder::new()
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), answer);
            let outcome = tokio::time::timeout(CONNECTION_TIME_MAX, connection).await;
            debug!(?outcome, "Management connection ended.");
            drop(permit);
        });
    }
}

async fn respond(
    request: Request<Incoming>,
    view: &View,
) -> Result<Response<Full<Bytes>>, hyper::http::Error> {
    let answer = view.answer(request.method(), request.uri().path(), request.uri().query());
    Response::builder()
        .status(answer.status)
        .header(CONTENT_TYPE, answer.content_type)
        .body(Full::from(answer.body))
}
