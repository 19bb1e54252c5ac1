//! What a description must not be: names, sizes, alignments and places that no language could agree on.

use super::{
    Description, Encoding, Field, Item, MOST_ALIGN, MOST_BYTES, MOST_DEPTH, MOST_EXTENTS,
    MOST_FIELDS, MOST_NAME, Struct,
};

impl Description {
    /// Says what is wrong with it, and with which part.
    pub(super) fn flaw(&self) -> Option<(String, &'static str)> {
        let mut fields = 0;
        self.flaw_of_one(&mut fields).or_else(|| {
            let reply = self.reply()?;
            match reply.reply {
                Some(_) => Some((reply.name.clone(), "a reply has no reply")),
                None => reply.flaw_of_one(&mut fields),
            }
        })
    }

    fn flaw_of_one(&self, fields: &mut usize) -> Option<(String, &'static str)> {
        let whole = |why| Some((self.name.clone(), why));
        if !is_name(&self.name, true) {
            return whole("a name has at most 120 bytes, none of them a control character");
        }
        if self.encoding != Encoding::Raw {
            let is_bare = self.shape == Struct { size: 0, align: 1, fields: Vec::new() };
            return if is_bare && !self.is_slice && self.tail.is_none() {
                None
            } else {
                whole("only raw values have fields")
            };
        }
        // Languages disagree about how many bytes a type without any has.
        if self.shape.size == 0 {
            return whole("a value has at least one byte");
        }
        if let Some(tail) = &self.tail {
            if self.is_slice || self.single().is_some() {
                return whole("a struct alone has a tail, and no slice of structs");
            }
            return flaw_of_struct(&self.name, &self.shape, fields, 1)
                .or_else(|| flaw_of_tail(tail, &self.shape, fields));
        }
        if let Some(field) = self.single() {
            return flaw_of_place(&self.name, &self.shape)
                .or_else(|| flaw_of_field(field, &self.shape, fields, 1));
        }
        flaw_of_struct(&self.name, &self.shape, fields, 1)
    }
}

fn flaw_of_struct(
    name: &str,
    shape: &Struct,
    fields: &mut usize,
    depth: usize,
) -> Option<(String, &'static str)> {
    let whole = |why| Some((name.to_owned(), why));
    if depth > MOST_DEPTH {
        return whole("types are nested at most 8 deep");
    }
    if let Some(flaw) = flaw_of_place(name, shape) {
        return Some(flaw);
    }
    let mut end = 0;
    for (at, field) in shape.fields.iter().enumerate() {
        if field.name.is_empty() {
            return whole("each field of a struct has a name");
        }
        if shape.fields[..at].iter().any(|other| other.name == field.name) {
            return Some((field.name.clone(), "two fields have the same name"));
        }
        if u64::from(field.offset) < end {
            return Some((
                field.name.clone(),
                "fields come in the order of their places, and apart",
            ));
        }
        if let Some(flaw) = flaw_of_field(field, shape, fields, depth) {
            return Some(flaw);
        }
        end = u64::from(field.offset) + field.bytes();
    }
    None
}

/// Says what is wrong with a type's size or alignment.
fn flaw_of_place(name: &str, shape: &Struct) -> Option<(String, &'static str)> {
    let whole = |why| Some((name.to_owned(), why));
    if !shape.align.is_power_of_two() || shape.align > MOST_ALIGN {
        return whole("an alignment is a power of two up to 4,096");
    }
    if u64::from(shape.size) > MOST_BYTES || !shape.size.is_multiple_of(shape.align) {
        return whole("a size is a multiple of the alignment, at most 1 GiB");
    }
    None
}

/// Says what is wrong with the items behind a struct.
fn flaw_of_tail(tail: &Field, of: &Struct, fields: &mut usize) -> Option<(String, &'static str)> {
    let this = |why| Some((tail.name.clone(), why));
    if tail.name.is_empty() || of.fields.iter().any(|other| other.name == tail.name) {
        return this("a tail has a name of its own");
    }
    if tail.offset != of.size || !tail.offset.is_multiple_of(tail.item.align()) {
        return this("a tail begins where its type ends: a field is needed to fill the gap");
    }
    if tail.bytes() == 0 || tail.bytes() > MOST_BYTES {
        return this("an item of a tail has at least one byte, and at most 1 GiB");
    }
    if of.align > 8 || tail.item.align() > 8 {
        return this("a type with a tail, and its items, are aligned to at most 8 bytes");
    }
    flaw_of_item(tail, fields, 1)
}

fn flaw_of_field(
    field: &Field,
    of: &Struct,
    fields: &mut usize,
    depth: usize,
) -> Option<(String, &'static str)> {
    if u64::from(field.offset).saturating_add(field.bytes()) > u64::from(of.size) {
        return Some((field.name.clone(), "it does not lie inside its type"));
    }
    flaw_of_item(field, fields, depth)
}

/// Says what is wrong with a field, wherever it lies.
fn flaw_of_item(field: &Field, fields: &mut usize, depth: usize) -> Option<(String, &'static str)> {
    let this = |why| Some((field.name.clone(), why));
    *fields += 1;
    if *fields > MOST_FIELDS {
        return this("a type has at most 512 fields");
    }
    if !is_name(&field.name, true) {
        return this("a name has at most 120 bytes, none of them a control character");
    }
    if field.extents.len() > MOST_EXTENTS {
        return this("an array has at most 4 extents");
    }
    match &field.item {
        Item::Number(_) => None,
        Item::Struct(nested) => flaw_of_struct(&field.name, nested, fields, depth + 1),
    }
}

fn is_name(name: &str, may_be_empty: bool) -> bool {
    name.len() <= MOST_NAME
        && (may_be_empty || !name.is_empty())
        && !name.chars().any(char::is_control)
}
