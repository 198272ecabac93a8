use fastrand::Rng;
use thalweg_core::stream::{BatchBounds, HistoryBounds, RemovalBounds};
use thalweg_wire::Format;

/// The conditions of a seed's world. All is small, so that history, hot tails and sockets are at their bounds all the time.
#[derive(Debug)]
pub(super) struct Conditions {
    pub(super) steps: u32,
    pub(super) topics: usize,
    /// The first shard owns every topic, the others follow.
    pub(super) shards: usize,
    /// Whether batches may fail to reach the other shards.
    pub(super) holes: bool,
    pub(super) clients: usize,
    /// Whether rows of a topic have different columns.
    pub(super) changes: bool,
    /// Whether peers may request compression, which costs more than all the rest.
    pub(super) compresses: bool,
    /// Whether there may be broker topics, whose offsets are not consecutive.
    pub(super) feeds: bool,
    pub(super) rows: bool,
    pub(super) values: bool,
    /// How many removals keyed topics remember, if there may be such topics.
    pub(super) keyed: Option<RemovalBounds>,
    /// Whether patches may take too long.
    pub(super) hurries: bool,
    pub(super) event_bytes_max: usize,
    pub(super) events_max: usize,
    pub(super) batch: BatchBounds,
    pub(super) history: HistoryBounds,
    pub(super) tail_bytes: usize,
    /// The limit of all frames of columns of a shard.
    pub(super) column_bytes_max: usize,
    pub(super) socket_bytes_max: usize,
    pub(super) visit_bytes_max: usize,
}

impl Conditions {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let mut conditions = Self {
            steps: rng.u32(40..300),
            topics: rng.usize(1..=4),
            shards: rng.usize(1..=2),
            holes: rng.bool(),
            clients: rng.usize(1..=8),
            changes: rng.bool(),
            compresses: rng.u8(0..4) == 0,
            feeds: rng.bool(),
            rows: true,
            values: rng.bool(),
            keyed: Self::draw_keyed(&mut own_rng(rng)),
            hurries: rng.u8(0..4) == 0,
            event_bytes_max: 1 + magnitude(rng, 600),
            events_max: 1 + magnitude(rng, 12),
            batch: BatchBounds {
                flush_us: if rng.bool() { 0 } else { magnitude(rng, 20_000) as u64 },
                events_max: 1 + magnitude(rng, 15),
                bytes_max: 1 + magnitude(rng, 3000),
            },
            history: HistoryBounds {
                events_max: 4 << rng.u32(0..7),
                bytes_max: 400 << rng.u32(0..8),
                age_us_max: 10_000 << rng.u32(0..12),
            },
            tail_bytes: 1 + magnitude(rng, 16_000),
            column_bytes_max: 1 + magnitude(rng, 100_000),
            socket_bytes_max: 200 << rng.u32(0..6),
            visit_bytes_max: 200 << rng.u32(0..6),
        };
        match rng.u8(0..50) {
            0 => conditions.grow(),
            1 => conditions.multiply(),
            _ => {}
        }
        conditions
    }

    fn draw_keyed(rng: &mut Rng) -> Option<RemovalBounds> {
        let age_us_max = 1000 << rng.u32(0..16);
        rng.bool().then(|| RemovalBounds { age_us_max, count_max: 1 + magnitude(rng, 100) })
    }

    /// Frames of every length that a WebSocket header can have, and more cold bytes and batches than one send takes.
    fn grow(&mut self) {
        self.steps = 80;
        self.clients = 2;
        self.event_bytes_max = 80_000;
        self.events_max = 6;
        self.batch.events_max = 2;
        self.history.events_max = 200;
        self.history.bytes_max = 400_000;
        self.history.age_us_max = 10_000_000;
        self.tail_bytes = 40_000;
        self.socket_bytes_max = 1_000_000;
        self.visit_bytes_max = 400_000;
    }

    /// More topics on a connection than slices in a send.
    fn multiply(&mut self) {
        self.steps = 60;
        self.topics = 80;
        self.clients = 2;
        self.event_bytes_max = 20;
    }
}

/// Returns randomness for keyed topics alone, so that worlds without them stay as they are.
pub(super) fn own_rng(rng: &Rng) -> Rng {
    Rng::with_seed(!rng.get_seed())
}

/// The most formats of SignalR in which one topic is read: plain and compressed, as invocations and as its stream.
pub(super) const SIGNALR_FORMATS: usize = 4;

pub(super) fn is_signalr(format: Format) -> bool {
    format == format.with_signalr()
}

pub(super) fn any_format(rng: &mut Rng) -> Format {
    let columns = [Some(Format::ARROW), Format::ARROW.chunked()].into_iter().flatten();
    let signalr = [Some(Format::WEBSOCKET), Format::WEBSOCKET.compressed()].into_iter().flatten();
    let signalr = signalr.map(Format::with_signalr).cycle().take(6);
    let formats: Vec<Format> =
        Format::all().chain(columns.cycle().take(6)).chain(signalr).collect();
    formats[rng.usize(0..formats.len())]
}

/// Returns a number up to `max` of any order of magnitude.
pub(super) fn magnitude(rng: &mut Rng, max: usize) -> usize {
    let bits = usize::BITS - max.leading_zeros();
    let max = max >> rng.u32(0..bits.max(1));
    rng.usize(0..=max)
}
