//! How a connection to ClickHouse comes to be: TCP, and TLS on top where the endpoint is `https`.

use std::error::Error as StdError;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_rustls::{
    FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream,
};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::config::ClickHouseConfig;

/// Firewalls forget connections that say nothing for long.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

type BoxError = Box<dyn StdError + Send + Sync>;
type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Connects within a time that has name lookup, TCP and TLS in it: a server that takes a connection and then
/// says nothing is as far away as one that does not take it.
#[derive(Clone)]
pub(super) struct Connector {
    way: Way,
    limit: Duration,
}

#[derive(Clone)]
enum Way {
    Plain(HttpConnector),
    Tls(HttpsConnector<HttpConnector>),
}

impl Connector {
    /// With TLS for those endpoints of the configuration that are `https`.
    pub(super) fn new(config: &ClickHouseConfig) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(config.connect_timeout));
        tcp.set_keepalive(Some(TCP_KEEPALIVE));
        let way = match &config.tls {
            None => Way::Plain(tcp),
            Some(tls) => {
                tcp.enforce_http(false);
                let builder = HttpsConnectorBuilder::new()
                    .with_tls_config(tls.config().as_ref().clone())
                    .https_or_http();
                let builder = match tls.server_name() {
                    None => builder,
                    Some(name) => builder
                        .with_server_name_resolver(FixedServerNameResolver::new(name.clone())),
                };
                Way::Tls(builder.enable_http1().wrap_connector(tcp))
            }
        };
        Self { way, limit: config.connect_timeout }
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match &mut self.way {
            Way::Plain(tcp) => tcp.poll_ready(context).map_err(Into::into),
            Way::Tls(tls) => tls.poll_ready(context),
        }
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let limit = self.limit;
        match &mut self.way {
            Way::Plain(tcp) => {
                let connecting = tcp.call(uri);
                Box::pin(within(limit, async move { Ok(Stream::Http(connecting.await?)) }))
            }
            Way::Tls(tls) => Box::pin(within(limit, tls.call(uri))),
        }
    }
}

async fn within(
    limit: Duration,
    connecting: impl Future<Output = Result<Stream, BoxError>>,
) -> Result<Stream, BoxError> {
    match tokio::time::timeout(limit, connecting).await {
        Ok(outcome) => outcome,
        Err(elapsed) => Err(io::Error::new(io::ErrorKind::TimedOut, elapsed).into()),
    }
}
