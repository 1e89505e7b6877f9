//! The smallest HTTP client that can ask ClickHouse something: one request a connection, blocking.
//!
//! For tests and the demo. The collector's inserts have their own client with its own rules.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longest wait for a connection, and for any part of an answer.
const WAIT: Duration = Duration::from_secs(60);

/// Why a query has no result.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// ClickHouse refused or failed it.
    #[error("HTTP {status}: {text}")]
    Refused {
        /// HTTP status; says little, many errors of very different kinds are 500.
        status: u16,
        /// ClickHouse's exception code.
        code: Option<u32>,
        /// The exception's text.
        text: String,
    },
    /// No answer.
    #[error("no answer from ClickHouse: {0}")]
    Io(#[from] io::Error),
    /// An answer that is not HTTP.
    #[error("ClickHouse's answer is cut or malformed")]
    Malformed,
}

/// Runs one statement and returns the body of the answer.
pub(super) fn query(
    address: SocketAddr,
    user: Option<(&str, &str)>,
    sql: &str,
) -> Result<String, QueryError> {
    let mut stream = TcpStream::connect_timeout(&address, WAIT)?;
    stream.set_read_timeout(Some(WAIT))?;
    stream.set_write_timeout(Some(WAIT))?;
    let user = user.map_or_else(String::new, |(name, password)| {
        format!("X-ClickHouse-User: {name}\r\nX-ClickHouse-Key: {password}\r\n")
    });
    // With wait_end_of_query an error that comes late still has its status and code.
    let head = format!(
        "POST /?wait_end_of_query=1 HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{user}Content-Length: {}\r\n\r\n",
        sql.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(sql.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    parse(&answer)
}

fn parse(answer: &[u8]) -> Result<String, QueryError> {
    let end =
        answer.windows(4).position(|window| window == b"\r\n\r\n").ok_or(QueryError::Malformed)?;
    let (head, body) = answer.split_at(end + 4);
    let head = str::from_utf8(head).map_err(|_| QueryError::Malformed)?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .ok_or(QueryError::Malformed)?;
    let body = if header(head, "transfer-encoding") == Some("chunked") {
        join_chunks(body).ok_or(QueryError::Malformed)?
    } else {
        let length = header(head, "content-length").and_then(|length| length.parse().ok());
        body.get(..length.unwrap_or(body.len())).ok_or(QueryError::Malformed)?.to_owned()
    };
    let text = String::from_utf8_lossy(&body).into_owned();
    if status == 200 {
        return Ok(text);
    }
    let code = header(head, "x-clickhouse-exception-code").and_then(|code| code.parse().ok());
    Err(QueryError::Refused { status, code, text: text.trim_end().to_owned() })
}

fn header<'head>(head: &'head str, name: &str) -> Option<&'head str> {
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    fields
        .into_iter()
        .find(|(field, _)| field.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
}

/// Chunked transfer coding, RFC 9112 section 7.1. None when the last chunk is missing.
fn join_chunks(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut joined = Vec::new();
    loop {
        let line_end = body.windows(2).position(|window| window == b"\r\n")?;
        let line = str::from_utf8(body.get(..line_end)?).ok()?;
        let size = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(joined);
        }
        let start = line_end + 2;
        let end = start.checked_add(size)?;
        joined.extend_from_slice(body.get(start..end)?);
        body = body.get(end.checked_add(2)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_come_by_length_in_chunks_or_to_the_end() {
        let parsed = |text: &str| parse(text.as_bytes()).unwrap();
        assert_eq!(parsed("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1\n"), "1\n");
        assert_eq!(
            parsed(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n1\n\r\na;x\r\n0123456789\r\n0\r\n\r\n"
            ),
            "1\n0123456789"
        );
        assert_eq!(parsed("HTTP/1.1 200 OK\r\n\r\nrest"), "rest");
    }

    #[test]
    fn cut_answers_are_errors() {
        for text in [
            "",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n1\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n1\n\r\n0\r\n\r\n",
        ] {
            assert!(matches!(parse(text.as_bytes()), Err(QueryError::Malformed)), "{text}");
        }
    }

    #[test]
    fn errors_keep_status_code_and_text() {
        let error =
            parse(b"HTTP/1.1 404 Not Found\r\nX-ClickHouse-Exception-Code: 60\r\n\r\nCode: 60.\n")
                .unwrap_err();
        assert!(matches!(error, QueryError::Refused { status: 404, code: Some(60), .. }));
        assert_eq!(error.to_string(), "HTTP 404: Code: 60.");
    }
}
