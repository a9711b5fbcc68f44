//! As much of HTTP/1.1 as a scrape needs: a GET, an answer, the end of the connection.
//!
//! Each of a few threads takes a connection, and has done with it within a bounded time and memory, whatever the other side does.
//! Further connections wait in the kernel's queue, which is bounded too.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use punctual_platform::clock;
use punctual_platform::timed::Timed;

use super::exposition::Format;

/// Connections at the same time.
const THREADS: usize = 16;

/// A request's line and its headers.
const HEAD_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;

/// For a request to come, and for an answer to be taken: many round trips of any network.
const READ_NS: u64 = 1_000_000_000;
const WRITE_NS: u64 = 1_000_000_000;

/// What the other side still sends is read for as long, since a connection that is closed before that is reset, and the answer lost.
const CLOSE_NS: u64 = 100_000_000;
const CLOSE_BYTES_MAX: u64 = 64 << 10;

/// Between two attempts to accept a connection that the system refuses, as it does without free descriptors.
const REFUSED_NS: u64 = 100_000_000;

const PATH: &str = "/metrics";

#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Where it is found.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Serves these texts until the process ends.
    pub fn start(self, text: impl Fn(Format) -> String + Send + Sync + 'static) -> io::Result<()> {
        let (listener, text) = (Arc::new(self.listener), Arc::new(text));
        for number in 0..THREADS {
            let (listener, text) = (Arc::clone(&listener), Arc::clone(&text));
            let thread = thread::Builder::new().name(format!("scrape {number}"));
            thread.spawn(move || {
                loop {
                    match listener.accept() {
                        // A connection that fails is the other side's loss.
                        Ok((stream, _)) => drop(serve(stream, &*text)),
                        Err(_) => clock::sleep_until_ns(clock::now_ns() + REFUSED_NS),
                    }
                }
            })?;
        }
        Ok(())
    }
}

fn serve(stream: TcpStream, text: &impl Fn(Format) -> String) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let mut stream = Timed::until(stream, clock::now_ns() + READ_NS);
    let request = Request::read(&mut stream)?;
    let response = request.response(text);
    stream.extend(clock::now_ns() + WRITE_NS);
    stream.write_all(&response)?;
    stream.stream().shutdown(Shutdown::Write)?;
    stream.extend(clock::now_ns() + CLOSE_NS);
    io::copy(&mut stream.take(CLOSE_BYTES_MAX), &mut io::sink()).map(drop)
}

/// What the other side asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Metrics(Format, Body),
    OtherPath,
    OtherMethod,
    Malformed,
    TooLong,
    TooSlow,
}

/// Whether the answer has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    /// To GET.
    Sent,
    /// To HEAD.
    LeftOut,
}

impl Request {
    fn read(stream: &mut impl io::Read) -> io::Result<Self> {
        let mut head = [0; HEAD_BYTES_MAX];
        let mut length = 0;
        while length < head.len() {
            match stream.read(&mut head[length..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => length += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::TimedOut => return Ok(Self::TooSlow),
                Err(error) => return Err(error),
            }
            if let Some(request) = Self::of(&head[..length]) {
                return Ok(request);
            }
        }
        Ok(Self::TooLong)
    }

    /// None: more of it is to come.
    fn of(head: &[u8]) -> Option<Self> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut headers);
        match parsed.parse(head) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) => return None,
            Err(httparse::Error::TooManyHeaders) => return Some(Self::TooLong),
            Err(_) => return Some(Self::Malformed),
        }
        let body = match parsed.method {
            Some("GET") => Body::Sent,
            Some("HEAD") => Body::LeftOut,
            _ => return Some(Self::OtherMethod),
        };
        let path = parsed.path.and_then(|path| path.split('?').next());
        if path != Some(PATH) {
            return Some(Self::OtherPath);
        }
        let mut headers = parsed.headers.iter();
        let accept = headers.find(|header| header.name.eq_ignore_ascii_case("accept"));
        let accept = accept.and_then(|header| std::str::from_utf8(header.value).ok());
        Some(Self::Metrics(Format::accepted(accept.unwrap_or("")), body))
    }

    fn response(self, text: &impl Fn(Format) -> String) -> Vec<u8> {
        let refused =
            |status, words: &str| response(status, REFUSAL_TYPE, &format!("{words}\n"), Body::Sent);
        match self {
            Self::Metrics(format, body) => {
                response("200 OK", format.content_type(), &text(format), body)
            }
            Self::OtherPath => refused("404 Not Found", "there is /metrics"),
            Self::OtherMethod => refused(
                "405 Method Not Allowed\r\nAllow: GET, HEAD",
                "metrics are read by GET",
            ),
            Self::Malformed => refused("400 Bad Request", "this is no request of HTTP/1.1"),
            Self::TooLong => refused(
                "431 Request Header Fields Too Large",
                "a request has at most 8192 bytes and 64 headers",
            ),
            Self::TooSlow => refused("408 Request Timeout", "a request comes within a second"),
        }
    }
}

const REFUSAL_TYPE: &str = "text/plain; charset=utf-8";

/// The length is that of the text also where the text is left out.
fn response(status: &str, content_type: &str, text: &str, body: Body) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
        text.len()
    );
    match body {
        Body::Sent => head + text,
        Body::LeftOut => head,
    }
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    const LIMIT_NS: u64 = 20_000_000_000;

    fn server(text: impl Fn(Format) -> String + Send + Sync + 'static) -> SocketAddr {
        let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let address = server.address;
        server.start(text).expect("threads");
        address
    }

    fn connect(address: SocketAddr, sent: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(sent).expect("it reads");
        stream
    }

    /// All that the server sends until it closes the connection.
    fn rest(stream: TcpStream) -> String {
        stream.set_nonblocking(true).expect("a socket");
        let mut text = String::new();
        let mut timed = Timed::until(stream, clock::now_ns() + LIMIT_NS);
        timed.read_to_string(&mut text).expect("it closes in time");
        text
    }

    fn asked(address: SocketAddr, sent: &str) -> String {
        rest(connect(address, sent.as_bytes()))
    }

    const GET: &str = "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n";

    #[test]
    fn a_scrape_gets_the_format_that_it_accepts() {
        let address = server(|format| format!("{format:?}"));
        let plain = asked(address, GET);
        assert!(plain.starts_with("HTTP/1.1 200 OK\r\n"), "{plain}");
        assert!(plain.contains("\r\nContent-Length: 5\r\n"), "{plain}");
        assert!(plain.ends_with("\r\n\r\nPlain"), "{plain}");
        let accept = "accept: text/html, application/openmetrics-text;version=1.0.0\r\n\r\n";
        let open = asked(address, &format!("GET /metrics?x=y HTTP/1.1\r\n{accept}"));
        assert!(open.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0"));
        assert!(open.ends_with("\r\n\r\nOpenMetrics"), "{open}");
        let head = asked(address, "HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.contains("Content-Length: 5\r\n") && head.ends_with("\r\n\r\n"));
    }

    #[test]
    fn two_scrapes_at_the_same_time_are_both_answered() {
        let both = Barrier::new(2);
        let address = server(move |_| {
            both.wait();
            "all".to_owned()
        });
        let scrapes = [
            connect(address, GET.as_bytes()),
            connect(address, GET.as_bytes()),
        ];
        for scrape in scrapes {
            assert!(rest(scrape).ends_with("\r\n\r\nall"));
        }
    }

    #[test]
    fn what_is_no_scrape_is_refused_with_a_word_on_what_is() {
        let address = server(|_| panic!("nothing is read for it"));
        let long = format!(
            "GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n",
            "x".repeat(HEAD_BYTES_MAX)
        );
        let many = format!(
            "GET /metrics HTTP/1.1\r\n{}\r\n",
            "X: y\r\n".repeat(HEADERS_MAX + 1)
        );
        for (sent, status) in [
            (
                "POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
                "405 Method Not Allowed",
            ),
            ("GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
            ("GET /metrics/../secret HTTP/1.1\r\n\r\n", "404 Not Found"),
            ("\0\u{1}\u{2}\r\n\r\n", "400 Bad Request"),
            ("GET /metrics SMTP\r\n\r\n", "400 Bad Request"),
            (&long, "431 Request Header Fields Too Large"),
            (&many, "431 Request Header Fields Too Large"),
        ] {
            let answer = asked(address, sent);
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}\r\n")),
                "{sent:.40}: {answer}"
            );
        }
        let refused = asked(address, "PUT /metrics HTTP/1.1\r\n\r\n");
        assert!(refused.contains("\r\nAllow: GET, HEAD\r\n"), "{refused}");
    }

    #[test]
    fn peers_that_say_nothing_delay_a_scrape_by_their_time_and_no_longer() {
        let address = server(|_| "all".to_owned());
        let slow: Vec<TcpStream> = (0..THREADS)
            .map(|_| connect(address, b"GET /met"))
            .collect();
        assert!(asked(address, GET).ends_with("\r\n\r\nall"));
        for peer in slow {
            let answer = rest(peer);
            assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        }
    }

    #[test]
    fn peers_that_read_nothing_or_go_hold_no_thread() {
        let address = server(|_| "x".repeat(8 << 20));
        let deaf: Vec<TcpStream> = (0..THREADS)
            .map(|_| connect(address, GET.as_bytes()))
            .collect();
        for _ in 0..2 * THREADS {
            drop(connect(address, b"GET"));
            drop(connect(address, GET.as_bytes()));
        }
        assert!(asked(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        drop(deaf);
    }
}
