//! One request and its raw answer, to diagnose the path between a client and a server.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Method,
    body::Incoming,
    header::{AUTHORIZATION, HeaderMap, HeaderName},
};

use crate::{Client, Error, Refusal, limits::PROBE_BYTES_MAX, link::Link};

/// A request of [`Client::probe`].
#[derive(Debug, Clone, Copy)]
pub struct Probe<'a> {
    /// The method, such as `GET`.
    pub method: &'a str,
    /// The path below the server's URL, such as `/v1/topics`, with its query.
    pub path: &'a str,
    /// Headers besides `Host` and the token.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body.
    pub body: &'a str,
    /// Whether to send the token of the options. A browser sends none with a preflight.
    pub sends_token: bool,
}

/// The answer to a [`Probe`], from the server or from a proxy.
#[derive(Debug)]
pub struct ProbeAnswer {
    /// The status.
    pub status: u16,
    /// Whether the connection uses HTTP/2.
    pub is_http2: bool,
    /// The time from the request to the head of the answer, without the time to connect.
    pub latency: Duration,
    /// The body as text, or its beginning if it is large.
    pub body: String,
    headers: HeaderMap,
}

impl Default for Probe<'_> {
    fn default() -> Self {
        Self { method: "GET", path: "/healthz", headers: &[], body: "", sends_token: true }
    }
}

impl ProbeAnswer {
    /// Returns the values of a header; one that is not text is empty.
    pub fn header(&self, name: &str) -> Vec<&str> {
        let values = self.headers.get_all(name).iter();
        values.map(|value| value.to_str().unwrap_or_default()).collect()
    }

    /// Returns the refusal in the body, if it is that of a Thalweg server.
    pub fn refusal(&self) -> Option<Refusal> {
        let refusal = Refusal::read(self.status, self.body.as_bytes());
        refusal.code.is_some().then_some(refusal)
    }
}

impl Client {
    /// Returns the origin of the server: scheme, host and port, as a browser writes it.
    pub fn origin(&self) -> String {
        let server = &self.exchange.server;
        let (scheme, default_port) =
            if server.is_tls { ("https", ":443") } else { ("http", ":80") };
        let authority = server.authority.to_ascii_lowercase();
        format!("{scheme}://{}", authority.strip_suffix(default_port).unwrap_or(&authority))
    }

    /// Sends a request on a new connection and returns the answer, whatever its status. The client follows no
    /// redirect and does not retry. The caller limits the time: dropping the future ends the connection.
    ///
    /// # Errors
    /// No connection, an end before the head of the answer, or a method or header that HTTP cannot hold ([`Error::Url`]).
    pub async fn probe(&self, probe: Probe<'_>) -> Result<ProbeAnswer, Error> {
        let path = self.exchange.server.path(probe.path);
        let wrong = |why: String| Error::Url { url: path.clone(), why };
        let method = Method::from_bytes(probe.method.as_bytes());
        let method = method.map_err(|error| wrong(error.to_string()))?;
        let mut headers = Vec::new();
        for (name, value) in probe.headers {
            let name = HeaderName::try_from(*name).map_err(|error| wrong(error.to_string()))?;
            headers.push((name, (*value).to_owned()));
        }
        let body = Full::new(Bytes::from(probe.body.to_owned())).boxed_unsync();
        let mut request = self.exchange.request(method, &path, &headers, body)?;
        if !probe.sends_token {
            request.headers_mut().remove(AUTHORIZATION);
        }
        let mut link = self.exchange.open(None).await?;
        let is_http2 = matches!(link, Link::Http2(_));
        let begun = Instant::now();
        let answer = link.send(&self.exchange.server, request).await?;
        let latency = begun.elapsed();
        let (head, body) = answer.into_parts();
        let body = beginning(body).await;
        let body = String::from_utf8_lossy(&body).into_owned();
        let (status, headers) = (head.status.as_u16(), head.headers);
        Ok(ProbeAnswer { status, is_http2, latency, body, headers })
    }
}

/// Reads a body up to its bound, its end, or the end of the connection: a part of it is still useful.
async fn beginning(mut body: Incoming) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < PROBE_BYTES_MAX
        && let Some(Ok(frame)) = body.frame().await
    {
        let data: &[u8] = frame.data_ref().map_or(&[], |data| data);
        let room = PROBE_BYTES_MAX - bytes.len();
        bytes.extend_from_slice(&data[..data.len().min(room)]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use crate::{Client, Options};

    #[test]
    fn an_origin_is_written_as_browsers_do() {
        let check = |url: &str, expected: &str| {
            let client = Client::new(url, Options::default()).unwrap();
            assert_eq!(client.origin(), expected, "{url}");
        };
        check("http://127.0.0.1:8080/v1/topics/cars", "http://127.0.0.1:8080");
        check("https://Push.Example:443/live/", "https://push.example");
        check("wss://push.example:80", "https://push.example:80");
        check("http://[::1]:80", "http://[::1]");
    }
}
