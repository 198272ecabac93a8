use fastrand::Rng;
use serde_json::{Map, Value, json};

/// A document that changes like a value's: some members, some elements, rarely all.
pub(super) struct Document {
    value: Value,
    bytes_max: usize,
    ids: u64,
}

/// The length at which arrays stop growing.
const ELEMENTS_MAX: usize = 12;

impl Document {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { value: Value::Null, bytes_max, ids: 0 }
    }

    pub(super) fn next(&mut self, rng: &mut Rng) -> String {
        let is_new = self.value.is_null() || rng.u8(0..16) == 0;
        if is_new {
            self.value = self.whole(rng);
        } else {
            for _ in 0..rng.u8(0..4) {
                let mut value = self.value.take();
                self.change(&mut value, rng);
                self.value = value;
            }
        }
        let json = self.value.to_string();
        if json.len() > self.bytes_max.max(40) {
            self.value = json!([self.ids]);
            return self.value.to_string();
        }
        json
    }

    fn whole(&mut self, rng: &mut Rng) -> Value {
        match rng.u8(0..8) {
            0 => self.leaf(rng),
            1 => json!([]),
            _ => {
                json!({"score": [0, 0], "players": [self.player(rng), self.player(rng)], "a/b~": {}})
            }
        }
    }

    fn player(&mut self, rng: &mut Rng) -> Value {
        self.ids += 1;
        json!({"id": self.ids, "rating": self.leaf(rng)})
    }

    fn leaf(&mut self, rng: &mut Rng) -> Value {
        self.ids += 1;
        match rng.u8(0..6) {
            0 => json!(null),
            1 => json!(rng.bool()),
            2 => json!(rng.i64(..)),
            3 => json!(rng.f64() * 1e3),
            4 => json!("é\n</script>\u{2028}\"]},"),
            _ => json!(self.ids),
        }
    }

    fn change(&mut self, value: &mut Value, rng: &mut Rng) {
        match value {
            Value::Object(members) if !members.is_empty() && rng.u8(0..4) > 0 => {
                let name = members.keys().nth(rng.usize(0..members.len())).cloned();
                if let Some(member) = name.and_then(|name| members.get_mut(&name)) {
                    self.change(member, rng);
                }
            }
            Value::Object(members) => self.change_members(members, rng),
            Value::Array(elements) => self.change_elements(elements, rng),
            other => *other = self.leaf(rng),
        }
    }

    fn change_members(&mut self, members: &mut Map<String, Value>, rng: &mut Rng) {
        let name = ["x", "y", "a/b~", "\"", "id"][rng.usize(0..5)];
        if members.remove(name).is_none() {
            members.insert(name.to_owned(), self.leaf(rng));
        }
    }

    fn change_elements(&mut self, elements: &mut Vec<Value>, rng: &mut Rng) {
        let at = rng.usize(0..=elements.len());
        match rng.u8(0..5) {
            0 if elements.len() < ELEMENTS_MAX => elements.insert(at, self.player(rng)),
            1 if elements.len() < ELEMENTS_MAX => elements.insert(at, self.leaf(rng)),
            2 => rng.shuffle(elements),
            3 if at < elements.len() => {
                elements.remove(at);
            }
            _ => {
                if let Some(element) = elements.get_mut(at) {
                    self.change(element, rng);
                }
            }
        }
    }
}
