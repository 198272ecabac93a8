use smallvec::SmallVec;
use thalweg_wire::Format;

/// A value for each format in use. Most topics use one or two formats.
#[derive(Debug, Default)]
pub struct FormatMap<V>(SmallVec<[(Format, V); 2]>);

impl<V> FormatMap<V> {
    /// Returns the value of a format.
    pub fn get(&self, format: Format) -> Option<&V> {
        self.0.iter().find(|(other, _)| *other == format).map(|(_, value)| value)
    }

    /// Returns the value of a format, to change it.
    pub fn get_mut(&mut self, format: Format) -> Option<&mut V> {
        self.0.iter_mut().find(|(other, _)| *other == format).map(|(_, value)| value)
    }

    /// Returns the value of a format, and creates it if necessary.
    pub fn get_or_insert_with(&mut self, format: Format, make: impl FnOnce() -> V) -> &mut V {
        let found = self.0.iter().position(|(other, _)| *other == format);
        let index = found.unwrap_or_else(|| {
            self.0.push((format, make()));
            self.0.len() - 1
        });
        &mut self.0[index].1
    }

    /// Removes a format.
    pub fn remove(&mut self, format: Format) {
        self.0.retain(|(other, _)| *other != format);
        self.0.shrink_to_fit();
    }

    /// Removes the formats for whose value `is_kept` returns `false`.
    pub fn retain(&mut self, is_kept: impl Fn(&V) -> bool) {
        self.0.retain(|(_, value)| is_kept(value));
        self.0.shrink_to_fit();
    }

    /// Returns whether there is no format.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the formats and their values.
    pub fn iter(&self) -> impl Iterator<Item = (Format, &V)> {
        self.0.iter().map(|(format, value)| (*format, value))
    }

    /// Returns the formats and their values, to change the values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Format, &mut V)> {
        self.0.iter_mut().map(|(format, value)| (*format, value))
    }
}
