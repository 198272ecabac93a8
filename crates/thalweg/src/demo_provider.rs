//! `thalweg demo-provider`: the data provider of the published experiment D, a plain HTTP API without push. The demo fetches from
//! it, and the lab measures the fetcher with it.

mod provider;

use std::{
    cell::{OnceCell, RefCell},
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    rc::Rc,
    thread,
    time::Duration,
};

use anyhow::Context;
use bytes::Bytes;
use clap::Args;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use thalweg_match_feed::Size;
use thalweg_server::config::parse_duration;
use thalweg_terminal::print;
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::{Builder, LocalOptions},
    signal::unix::{SignalKind, signal},
    task::spawn_local,
    time::{Instant, sleep},
};

use crate::address::parse_address;
use provider::Provider;

/// Time for the head of a request to arrive, including the next request on a connection.
const HEAD_WAIT: Duration = Duration::from_secs(60);

/// Delay after a failed accept, when no file descriptor was free.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Serve football matches over plain HTTP, as sample data for an upstream.
///
/// GET /matchesfeed/ID/matchcentre returns a match, /matchesfeed/all the list of matches, and /requests the
/// number of requests so far. Responses have Last-Modified, ETag and Cache-Control: max-age. An invalid path
/// returns 400, an unknown match 501.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  thalweg demo-provider
  thalweg demo-provider --listen 127.0.0.1:9001 --matches 4 --size 10KB
  thalweg serve --upstream 'matchesfeed/**=http://127.0.0.1:9000/{topic}'")]
pub(crate) struct DemoProviderArgs {
    /// Listen on this address. Port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9000", value_parser = parse_address)]
    listen: SocketAddr,
    /// Serve this many matches. Their ids are 1, 2, 3 and so on.
    #[arg(long, value_name = "N", default_value = "10")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    matches: u32,
    /// Serve documents of this size: 5KB, 10KB or 165KB.
    #[arg(long, value_name = "SIZE", default_value = "165KB")]
    size: Size,
    /// Create a new version of each match after this time, e.g. 5s. A version advances the match by a second.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    every: Duration,
    /// Seed of the random events in matches. The same seed gives the same matches.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// The matches of the demo: number and size are those of the published experiment.
const DEMO: Terms =
    Terms { seed: 1, matches: 10, size: Size::Large, every: Duration::from_secs(1) };

/// Runs a provider beside the server, on its own thread and loopback port, until the program ends. Its matches begin with the
/// first request. Fails if no port or no thread is available.
pub(crate) fn beside() -> anyhow::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime =
        || Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let serve = move || -> anyhow::Result<Infallible> {
        runtime()?.block_on(async {
            let listener = TcpListener::from_std(listener)?;
            Ok(accept(listener, Rc::new(Serving::new(DEMO))).await)
        })
    };
    thread::Builder::new().name("demo-provider".into()).spawn(move || {
        let Err(error) = serve();
        tracing::warn!(%error, "the demo provider failed, so the demo has no matches");
    })?;
    Ok(address)
}

/// Serves until a signal ends it.
pub(crate) fn run(args: &DemoProviderArgs) -> anyhow::Result<()> {
    let DemoProviderArgs { listen, matches, size, every, seed } = *args;
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    runtime.block_on(async {
        let listener = TcpListener::bind(listen).await.with_context(|| {
            format!("cannot listen on {listen}; choose another address with --listen")
        })?;
        let address = listener.local_addr()?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let example = format!("http://{address}/matchesfeed/1/matchcentre");
        print(&format!("listening on http://{address}, e.g. {example}\n"))?;
        let serving = Serving::new(Terms { seed, matches, size, every });
        tokio::select! {
            never = accept(listener, Rc::new(serving)) => match never {},
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        }
    })
}

#[derive(Debug, Clone, Copy)]
struct Terms {
    seed: u64,
    matches: u32,
    size: Size,
    every: Duration,
}

struct Serving {
    terms: Terms,
    /// Created by the first request, with the time of that request.
    provider: OnceCell<(RefCell<Provider>, Instant)>,
}

impl Serving {
    fn new(terms: Terms) -> Self {
        Self { terms, provider: OnceCell::new() }
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let (provider, begun) = self.provider.get_or_init(|| {
            let Terms { seed, matches, size, every } = self.terms;
            (RefCell::new(Provider::new(seed, matches, size, every)), Instant::now())
        });
        provider.borrow_mut().answer(request, begun.elapsed())
    }
}

async fn accept(listener: TcpListener, serving: Rc<Serving>) -> Infallible {
    loop {
        match listener.accept().await {
            Ok((socket, _)) => drop(spawn_local(serve(socket, Rc::clone(&serving)))),
            Err(_) => sleep(ACCEPT_AGAIN).await,
        }
    }
}

async fn serve(socket: TcpStream, serving: Rc<Serving>) {
    let _ = socket.set_nodelay(true);
    let answer = service_fn(|request: Request<Incoming>| {
        let answered = serving.answer(&request);
        async { Ok::<Response<Full<Bytes>>, Infallible>(answered) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_WAIT);
    // A client that hangs up is not an error.
    let _ = http.serve_connection(TokioIo::new(socket), answer).await;
}

fn interval(text: &str) -> Result<Duration, String> {
    let every = parse_duration(text)?;
    if every < Duration::from_millis(1) {
        Err("too short; write at least 1ms".to_owned())
    } else {
        Ok(every)
    }
}
