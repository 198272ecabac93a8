//! Another client of NATS.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    time::Duration,
};

use async_nats::{Client, ConnectOptions, HeaderMap};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use super::{Servers, wait_for};

/// The name of the tests' stream in JetStream.
const STREAM: &str = "thalweg-s";

pub(crate) struct Operator {
    runtime: Runtime,
    client: Client,
}

impl Operator {
    pub(crate) fn new(servers: &Servers) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let urls: Vec<async_nats::ServerAddr> =
            servers.urls().iter().map(|url| url.parse().expect("an address")).collect();
        // A request that is lost with a server is soon sent again.
        let options = ConnectOptions::new().request_timeout(Some(Duration::from_secs(1)));
        let client = runtime.block_on(options.connect(urls)).expect("connect");
        Self { runtime, client }
    }

    /// Sends a request to JetStream until a server answers.
    pub(crate) fn api(&self, what: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        wait_for(what, || {
            let subject = format!("$JS.API.{what}");
            let answer = self.client.request(subject, body.clone().into());
            let answer = self.runtime.block_on(answer).ok()?;
            Some(serde_json::from_slice(&answer.payload).expect("JSON"))
        })
    }

    pub(crate) fn info(&self) -> Value {
        self.api(&format!("STREAM.INFO.{STREAM}"), &Value::Null)
    }

    pub(crate) fn delete_stream(&self) {
        let deleted = self.api(&format!("STREAM.DELETE.{STREAM}"), &Value::Null);
        assert_eq!(deleted["success"], true, "{deleted}");
    }

    pub(crate) fn purge_stream(&self) {
        let purged = self.api(&format!("STREAM.PURGE.{STREAM}"), &Value::Null);
        assert_eq!(purged["success"], true, "{purged}");
    }

    pub(crate) fn create_stream(&self, config: &Value) {
        let created = self.api(&format!("STREAM.CREATE.{STREAM}"), config);
        assert!(created["error"].is_null(), "{created}");
    }

    pub(crate) fn consumers(&self) -> Vec<Value> {
        let list = self.api(&format!("CONSUMER.LIST.{STREAM}"), &json!({}));
        list["consumers"].as_array().cloned().unwrap_or_default()
    }

    pub(crate) fn delete_consumer(&self, name: &str) {
        self.api(&format!("CONSUMER.DELETE.{STREAM}.{name}"), &Value::Null);
    }

    /// Publishes without waiting until the message is stored.
    pub(crate) fn publish(&self, subject: &str, reply: Option<&str>, body: &str) {
        let (subject, body) = (subject.to_owned(), body.to_owned().into());
        self.runtime.block_on(async {
            match reply.map(str::to_owned) {
                Some(reply) => self.client.publish_with_reply(subject, reply, body).await,
                None => self.client.publish(subject, body).await,
            }
            .expect("publish");
            self.client.flush().await.expect("publish");
        });
    }

    /// Stores messages of a topic. Waits for some of them, because a stream drops messages that come much faster than it stores.
    pub(crate) fn publish_all(&self, subject: &str, bodies: impl IntoIterator<Item = String>) {
        self.runtime.block_on(async {
            for (count, body) in bodies.into_iter().enumerate() {
                let (subject, body) = (subject.to_owned(), body.into());
                if count % 500 == 0 {
                    self.client.request(subject, body).await.expect("store");
                } else {
                    self.client.publish(subject, body).await.expect("publish");
                }
            }
            self.client.flush().await.expect("publish");
        });
    }

    /// Sends a consumer's heartbeat that names its last delivery, over a plain socket: no client library sends messages
    /// with a status.
    pub(crate) fn heartbeat(&self, inbox: &str, last: u64) {
        let port = self.client.server_info().port;
        let mut socket = BufReader::new(TcpStream::connect(("127.0.0.1", port)).expect("connect"));
        let head = format!("NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: {last}\r\n\r\n");
        let len = head.len();
        let sent = format!(
            "CONNECT {{\"verbose\":false,\"headers\":true}}\r\nHPUB {inbox} {len} {len}\r\n{head}\r\nPING\r\n"
        );
        socket.get_mut().write_all(sent.as_bytes()).expect("send");
        let mut line = String::new();
        while line != "PONG\r\n" {
            line.clear();
            assert!(socket.read_line(&mut line).expect("read") > 0, "no answer");
        }
    }

    /// Answers `count` direct gets of the stream with a message that has this sequence number and body.
    pub(crate) fn answer_direct_gets(&self, count: usize, subject: &str, sequence: u64) {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Subject", subject);
        headers.insert("Nats-Sequence", sequence.to_string());
        headers.insert("Nats-Time-Stamp", "2026-11-24T00:00:00.000000001Z");
        self.runtime.block_on(async {
            let asked = self.client.subscribe(format!("$JS.API.DIRECT.GET.{STREAM}")).await;
            let mut asked = asked.expect("subscribe").take(count);
            while let Some(request) = asked.next().await {
                let (reply, body) = (request.reply.expect("a reply"), sequence.to_string());
                let answer = self.client.publish_with_headers(reply, headers.clone(), body.into());
                answer.await.expect("answer");
            }
            self.client.flush().await.expect("answer");
        });
    }

    /// Stores a message as Thalweg does.
    pub(crate) fn publish_marked(&self, subject: &str, body: &str) {
        let mut headers = HeaderMap::new();
        headers.insert("Thalweg", "1");
        let (subject, body) = (subject.to_owned(), body.to_owned().into());
        self.runtime.block_on(async {
            self.client.publish_with_headers(subject, headers, body).await.expect("publish");
            self.client.flush().await.expect("publish");
        });
    }
}
