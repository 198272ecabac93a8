//! The metadata of Arrow's messages as flatbuffers, with the field numbers of `Schema.fbs` and `Message.fbs` (Format 1.5).

use flatbuffers::{FlatBufferBuilder, ForwardsUOffset, TableFinishedWIPOffset, Vector, WIPOffset};

use crate::{Columns, Kind, schema::OFFSET};

/// `MetadataVersion.V5`.
const VERSION: i16 = 4;

/// The content of a message, by its number in the union `MessageHeader`.
#[derive(Debug, Clone, Copy)]
enum Header {
    Schema = 1,
    DictionaryBatch = 2,
    RecordBatch = 3,
}

/// An offset and a length in a message's body, in bytes; or a column's rows and nulls.
pub(crate) type Pair = (i64, i64);

#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub(crate) nodes: Vec<Pair>,
    pub(crate) buffers: Vec<Pair>,
    pub(crate) bytes: i64,
}

type Builder = FlatBufferBuilder<'static>;
type Table = WIPOffset<TableFinishedWIPOffset>;
type Pairs = WIPOffset<Vector<'static, ForwardsUOffset<TableFinishedWIPOffset>>>;

/// Returns the slot of the table's field with this number.
const fn slot(field: u16) -> u16 {
    4 + 2 * field
}

/// Returns the metadata of a schema. The number of a dictionary is that of its column.
pub(crate) fn schema(columns: &Columns, metadata: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = Builder::new();
    let mut fields = vec![field(&mut builder, OFFSET, Kind::Int, None)];
    for (id, column) in columns.iter().enumerate() {
        let dictionary = (column.kind == Kind::String).then_some(id as i64);
        fields.push(field(&mut builder, &column.name, column.kind, dictionary));
    }
    let fields = builder.create_vector(&fields);
    let metadata = pairs(&mut builder, metadata);
    let table = builder.start_table();
    builder.push_slot_always(slot(1), fields);
    builder.push_slot_always(slot(2), metadata);
    let schema = builder.end_table(table);
    message(builder, Header::Schema, schema, 0, None)
}

/// Returns the metadata of rows or, with a dictionary's number, of the strings of this dictionary, which replace the earlier ones.
pub(crate) fn batch(
    rows: usize,
    layout: &Layout,
    dictionary: Option<i64>,
    metadata: Option<(&str, &str)>,
) -> Vec<u8> {
    // An upper bound of the size, so that the builder need not grow.
    let mut builder =
        Builder::with_capacity(256 + 16 * (layout.buffers.len() + layout.nodes.len()));
    let buffers = structs(&mut builder, &layout.buffers);
    let nodes = structs(&mut builder, &layout.nodes);
    let table = builder.start_table();
    builder.push_slot(slot(0), rows as i64, 0);
    builder.push_slot_always(slot(1), nodes);
    builder.push_slot_always(slot(2), buffers);
    let batch = builder.end_table(table);
    let Some(id) = dictionary else {
        return message(builder, Header::RecordBatch, batch, layout.bytes, metadata);
    };
    let table = builder.start_table();
    builder.push_slot(slot(0), id, 0);
    builder.push_slot_always(slot(1), batch);
    let batch = builder.end_table(table);
    message(builder, Header::DictionaryBatch, batch, layout.bytes, metadata)
}

fn message(
    mut builder: Builder,
    header: Header,
    content: Table,
    body_bytes: i64,
    metadata: Option<(&str, &str)>,
) -> Vec<u8> {
    let metadata = metadata.map(|metadata| pairs(&mut builder, &[metadata]));
    let table = builder.start_table();
    builder.push_slot_always(slot(0), VERSION);
    builder.push_slot_always(slot(1), header as u8);
    builder.push_slot_always(slot(2), content);
    builder.push_slot(slot(3), body_bytes, 0);
    if let Some(metadata) = metadata {
        builder.push_slot_always(slot(4), metadata);
    }
    let message = builder.end_table(table);
    builder.finish(message, None);
    builder.finished_data().to_vec()
}

fn field(builder: &mut Builder, name: &str, kind: Kind, dictionary: Option<i64>) -> Table {
    let is_json = kind == Kind::Json;
    let metadata = is_json.then(|| pairs(builder, &[("thalweg.type", "json")]));
    let name_at = builder.create_string(name);
    let (number, arrow_type) = arrow_type(builder, kind);
    let dictionary = dictionary.map(|id| {
        let index_type = int(builder, 32);
        let table = builder.start_table();
        builder.push_slot(slot(0), id, 0);
        builder.push_slot_always(slot(1), index_type);
        builder.end_table(table)
    });
    let children = builder.create_vector::<Table>(&[]);
    let table = builder.start_table();
    builder.push_slot_always(slot(0), name_at);
    builder.push_slot(slot(1), name != OFFSET, false);
    builder.push_slot_always(slot(2), number);
    builder.push_slot_always(slot(3), arrow_type);
    if let Some(dictionary) = dictionary {
        builder.push_slot_always(slot(4), dictionary);
    }
    builder.push_slot_always(slot(5), children);
    if let Some(metadata) = metadata {
        builder.push_slot_always(slot(6), metadata);
    }
    builder.end_table(table)
}

fn arrow_type(builder: &mut Builder, kind: Kind) -> (u8, Table) {
    const DOUBLE: i16 = 2;
    const MILLISECOND: i16 = 1;
    match kind {
        Kind::Null => (1, empty(builder)),
        Kind::Int => (2, int(builder, 64)),
        Kind::Double => {
            let table = builder.start_table();
            builder.push_slot_always(slot(0), DOUBLE);
            (3, builder.end_table(table))
        }
        Kind::String | Kind::Json => (5, empty(builder)),
        Kind::Bool => (6, empty(builder)),
        Kind::Time => {
            let zone = builder.create_string("UTC");
            let table = builder.start_table();
            builder.push_slot_always(slot(0), MILLISECOND);
            builder.push_slot_always(slot(1), zone);
            (10, builder.end_table(table))
        }
    }
}

fn int(builder: &mut Builder, bits: i32) -> Table {
    let table = builder.start_table();
    builder.push_slot_always(slot(0), bits);
    builder.push_slot_always(slot(1), true);
    builder.end_table(table)
}

fn empty(builder: &mut Builder) -> Table {
    let table = builder.start_table();
    builder.end_table(table)
}

fn pairs(builder: &mut Builder, pairs: &[(&str, &str)]) -> Pairs {
    let mut tables = Vec::new();
    for (key, value) in pairs {
        let (key, value) = (builder.create_string(key), builder.create_string(value));
        let table = builder.start_table();
        builder.push_slot_always(slot(0), key);
        builder.push_slot_always(slot(1), value);
        tables.push(builder.end_table(table));
    }
    builder.create_vector(&tables)
}

/// Writes a vector of structs of two integers of 64 bits: `FieldNode` or `Buffer`.
fn structs(builder: &mut Builder, pairs: &[Pair]) -> WIPOffset<Vector<'static, i64>> {
    builder.start_vector::<i64>(pairs.len() * 2);
    // A flatbuffer is written from its end.
    for (first, second) in pairs.iter().rev() {
        builder.push(*second);
        builder.push(*first);
    }
    builder.end_vector(pairs.len())
}
