//! The HTTP server: small, bounded, on a thread of its own.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use metrics::Counter;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tracing::debug;

use crate::config::ManagementConfig;
use crate::telemetry::MetricName;
use crate::tls::{ReloadError, ServerTls};

use super::access::{Access, CHALLENGE};
use super::handshake::{reload, shake_hands};
use super::routes::{Answer, View};

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
    tls: Option<Arc<ServerTls>>,
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

/// What every connection needs.
#[derive(Debug)]
struct Desk {
    view: Arc<View>,
    access: Access,
    tls: Option<Arc<ServerTls>>,
    refused_token: Counter,
    refused_handshake: Counter,
}

impl ManagementServer {
    /// Binds the address of the configuration and answers from `view`.
    ///
    /// # Errors
    ///
    /// The address is in use or not of this machine.
    pub fn start(config: &ManagementConfig, view: Arc<View>) -> Result<Self, StartError> {
        let listen = config.listen;
        Self::try_start(config, view).map_err(|error| StartError { listen, error })
    }

    fn try_start(config: &ManagementConfig, view: Arc<View>) -> io::Result<Self> {
        let listener = TcpListener::bind(config.listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let desk = Arc::new(Desk::new(config, Arc::clone(&view)));
        let thread = std::thread::Builder::new().name("manage".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = keep_up(&view) => {}
                    result = serve(listener, desk) => {
                        debug!(?result, "Management server ended.");
                    }
                    _ = stopped => {}
                }
            });
            // A look at a disk that hangs is not waited for.
            runtime.shutdown_background();
        })?;
        Ok(Self { address, tls: config.tls.clone(), stop: Some(stop), thread: Some(thread) })
    }

    /// Reads the certificate and its key again, at once; `true` when there is another one. Connections that
    /// are open keep the old one.
    ///
    /// # Errors
    ///
    /// They cannot be used, which is logged, and the ones of before stay.
    pub fn reload_certificate(&self) -> Result<bool, ReloadError> {
        self.tls.as_deref().map_or(Ok(false), reload)
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

impl Desk {
    fn new(config: &ManagementConfig, view: Arc<View>) -> Self {
        let refused =
            |reason| view.metrics.counter(MetricName::ManagementRefusedRequests, &[reason]);
        Self {
            access: Access::new(config.token.clone()),
            tls: config.tls.clone(),
            refused_token: refused("token"),
            refused_handshake: refused("handshake"),
            view,
        }
    }
}

async fn serve(listener: TcpListener, desk: Arc<Desk>) -> io::Result<()> {
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
        let desk = Arc::clone(&desk);
        tokio::spawn(async move {
            let outcome = tokio::time::timeout(CONNECTION_TIME_MAX, converse(stream, &desk)).await;
            debug!(?outcome, "Management connection ended.");
            drop(permit);
        });
    }
}

/// One connection, which has one request.
async fn converse(stream: TcpStream, desk: &Desk) -> hyper::Result<()> {
    let Some(tls) = &desk.tls else {
        return speak(stream, desk).await;
    };
    match shake_hands(stream, tls).await {
        Some(stream) => speak(stream, desk).await,
        None => {
            desk.refused_handshake.increment(1);
            Ok(())
        }
    }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    desk: &Desk,
) -> hyper::Result<()> {
    let answer = service_fn(|request| respond(request, desk));
    hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer)
        .await
}

async fn respond(
    request: Request<Incoming>,
    desk: &Desk,
) -> Result<Response<Full<Bytes>>, hyper::http::Error> {
    let (path, response) = (request.uri().path(), Response::builder());
    if !desk.access.is_granted(path, request.headers()) {
        desk.refused_token.increment(1);
        let answer = Answer::text(StatusCode::UNAUTHORIZED, "a token is needed, and the right one");
        return write(answer, response.header(WWW_AUTHENTICATE, CHALLENGE));
    }
    write(desk.view.answer(request.method(), path, request.uri().query()), response)
}

fn write(
    answer: Answer,
    response: hyper::http::response::Builder,
) -> Result<Response<Full<Bytes>>, hyper::http::Error> {
    response
        .status(answer.status)
        .header(CONTENT_TYPE, answer.content_type)
        .body(Full::from(answer.body))
}
