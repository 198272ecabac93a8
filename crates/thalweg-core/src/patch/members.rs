//! Compares two objects or two arrays.

use std::{borrow::Cow, collections::HashMap};

use super::{
    NoPatch,
    document::{Index, JsonDocument, Kind, unquoted},
    operations::Operations,
};

/// An object with more members, or an array with more elements with an id, is replaced, because sorting or looking them
/// up is one step that the budget cannot interrupt.
const MEMBERS_MAX: usize = 4096;

const ID: &[u8] = br#""id""#;

impl<F: FnMut() -> bool> Operations<'_, F> {
    pub(super) fn object(&mut self, before: Index, after: Index) -> Result<(), NoPatch> {
        let (old, new) = (by_name(&self.before, before), by_name(&self.after, after));
        let (Some(old), Some(new)) = (old, new) else { return self.replace(after) };
        self.budget.spend(64 * (old.len() + new.len()))?;
        let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (Some((old, _)), Some((new, _))) => old.cmp(new),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (None, None) => return Ok(()),
            };
            let gone = if order.is_le() { old.next() } else { None };
            let come = if order.is_ge() { new.next() } else { None };
            let Some((name, _)) = gone.as_ref().or(come.as_ref()) else { return Ok(()) };
            let here = self.path.at_name(name);
            match (gone, come) {
                (Some((_, before)), Some((_, after))) => self.value(before, after)?,
                (Some(_), None) => self.remove()?,
                (None, Some((_, after))) => self.add(after)?,
                (None, None) => {}
            }
            self.path.back(here);
        }
    }

    pub(super) fn array(&mut self, before: Index, after: Index) -> Result<(), NoPatch> {
        let old: Vec<Index> = self.before.children(before).collect();
        let new: Vec<Index> = self.after.children(after).collect();
        self.budget.spend(size_of::<Index>() * (old.len() + new.len()))?;
        let (old_ids, new_ids) = (ids(&self.before, &old), ids(&self.after, &new));
        match (old_ids, new_ids) {
            (Some(old_ids), Some(new_ids)) => self.by_id(&old, &new, &old_ids, &new_ids),
            _ => self.by_place(&old, &new),
        }
    }

    /// Compares elements by their place. Equal elements at the beginning and at the end stay.
    fn by_place(&mut self, old: &[Index], new: &[Index]) -> Result<(), NoPatch> {
        let shorter = old.len().min(new.len());
        let mut head = 0;
        while head < shorter && self.are_same(old[head], new[head])? {
            head += 1;
        }
        let mut tail = 0;
        while tail < shorter - head
            && self.are_same(old[old.len() - 1 - tail], new[new.len() - 1 - tail])?
        {
            tail += 1;
        }
        let (old, new) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
        for (place, (before, after)) in (head..).zip(old.iter().zip(new)) {
            let here = self.path.at_element(place);
            self.value(*before, *after)?;
            self.path.back(here);
        }
        for place in (head + new.len()..head + old.len()).rev() {
            self.at_element(place, Self::remove)?;
        }
        for (place, after) in (head..).zip(new).skip(old.len()) {
            self.at_element(place, |all| all.add(*after))?;
        }
        Ok(())
    }

    /// Compares elements by their id. First removes the elements that the new array lacks, the last one first. Then puts
    /// the right element at each place, from the beginning. Finally compares the elements that both arrays have.
    fn by_id(
        &mut self,
        old: &[Index],
        new: &[Index],
        old_ids: &[&[u8]],
        new_ids: &[&[u8]],
    ) -> Result<(), NoPatch> {
        self.budget.spend(64 * (old.len() + new.len()))?;
        let place_of: HashMap<&[u8], usize> = new_ids.iter().copied().zip(0..).collect();
        let mut before_of: Vec<Option<Index>> = vec![None; new.len()];
        // The final places of the elements, in their current order.
        let mut there: Vec<usize> = Vec::with_capacity(new.len());
        let mut gone: Vec<usize> = Vec::new();
        for (place, (id, before)) in old_ids.iter().zip(old).enumerate() {
            match place_of.get(id) {
                Some(wanted) => {
                    before_of[*wanted] = Some(*before);
                    there.push(*wanted);
                }
                None => gone.push(place),
            }
        }
        for place in gone.into_iter().rev() {
            self.at_element(place, Self::remove)?;
        }
        for (place, after) in new.iter().enumerate() {
            if before_of[place].is_none() {
                self.at_element(place, |all| all.add(*after))?;
                there.insert(place, place);
                self.budget.spend(size_of_val(&there[place..]))?;
            } else if there[place] != place {
                self.put(place, &mut there)?;
            }
        }
        for (place, (before, after)) in before_of.iter().zip(new).enumerate() {
            if let Some(before) = before {
                let here = self.path.at_element(place);
                self.value(*before, *after)?;
                self.path.back(here);
            }
        }
        Ok(())
    }

    /// Puts the right element at `place` with one move. If that element comes next, the one before it moves back to its final
    /// place, so that an element that goes far back takes one move, not one for each element that it passes.
    fn put(&mut self, place: usize, there: &mut Vec<usize>) -> Result<(), NoPatch> {
        self.budget.spend(size_of_val(&there[place..]))?;
        let follows = there.get(place + 1) == Some(&place);
        let (from, to) = if follows {
            (place, there[place].min(there.len() - 1))
        } else {
            // The element is in the array, and not at an earlier place.
            let Some(ahead) = there[place..].iter().position(|wanted| *wanted == place) else {
                return Err(NoPatch::Unsafe);
            };
            (place + ahead, place)
        };
        let moved = there.remove(from);
        there.insert(to, moved);
        let here = self.path.at_element(from);
        let source = self.path.as_bytes().to_vec();
        self.path.back(here);
        self.at_element(to, |all| all.relocate(&source))
    }

    fn at_element(
        &mut self,
        place: usize,
        operation: impl FnOnce(&mut Self) -> Result<(), NoPatch>,
    ) -> Result<(), NoPatch> {
        let here = self.path.at_element(place);
        operation(self)?;
        self.path.back(here);
        Ok(())
    }
}

/// Returns an object's members, sorted by name. `None` if there are too many, or two have the same name.
fn by_name<'a>(document: &JsonDocument<'a>, object: Index) -> Option<Vec<(Cow<'a, str>, Index)>> {
    let mut members = Vec::new();
    for (name, value) in document.members(object) {
        if members.len() == MEMBERS_MAX {
            return None;
        }
        members.push((unquoted(name)?, value));
    }
    members.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let are_unique = members.windows(2).all(|pair| pair[0].0 != pair[1].0);
    are_unique.then_some(members)
}

/// Returns the unparsed ids of an array's elements. `None` if there are too many, one has no id, or two have the same id.
fn ids<'a>(document: &JsonDocument<'a>, elements: &[Index]) -> Option<Vec<&'a [u8]>> {
    if elements.len() > MEMBERS_MAX {
        return None;
    }
    let mut ids = Vec::with_capacity(elements.len());
    for element in elements {
        if document.kind(*element) != Kind::Object {
            return None;
        }
        let (_, id) = document.members(*element).find(|(name, _)| *name == ID)?;
        if document.kind(id) != Kind::Scalar {
            return None;
        }
        ids.push(document.text(id));
    }
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1]).then_some(ids)
}
