//! A ClickHouse server that is away.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use common::{config, config_text};
use socket2::{Domain, Socket, Type};
use tidegate::clickhouse::{ClickHouseError, Connection};

/// A listener whose backlog is full: the kernel does not answer those who connect. Closed with what is returned.
fn unanswering() -> (SocketAddr, impl Sized) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(300)).ok();
    let waiting: Vec<_> = std::iter::from_fn(connect).collect();
    (address, (socket, waiting))
}

#[test]
fn a_connection_that_nobody_answers_ends_with_the_connect_timeout() {
    let (address, _held) = unanswering();
    let text = config_text(&format!("http://{address}"), "connect-timeout = \"300ms\"");
    let config = config(&text).clickhouse;
    let connection = Connection::new(&config).unwrap();
    let start = Instant::now();
    let error = connection.execute("SELECT 1").unwrap_err();
    let elapsed = start.elapsed();
    assert!((300..2_000).contains(&elapsed.as_millis()), "{elapsed:?}");
    assert!(matches!(error, ClickHouseError::Unreachable(_)), "{error:?}");
    assert_eq!(error.to_string(), "no connection: none within clickhouse.connect-timeout");
}
