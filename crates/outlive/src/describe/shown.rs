//! How a description is shown: `Pose { position: f64[3], heading: f32 }`.

use std::fmt;

use super::{Description, Encoding, Field, Item, Struct};

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_one(f)?;
        match self.reply() {
            Some(reply) => {
                f.write_str(" -> ")?;
                reply.write_one(f)
            }
            None => Ok(()),
        }
    }
}

impl Description {
    /// Writes it without its reply.
    fn write_one(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.encoding != Encoding::Raw {
            let name = self.encoding.name();
            return if self.name.is_empty() {
                f.write_str(name)
            } else {
                write!(f, "{} ({name})", self.name)
            };
        }
        let (open, close) = if self.is_slice { ("[", "]") } else { ("", "") };
        f.write_str(open)?;
        match self.single() {
            Some(field) => fmt::Display::fmt(field, f)?,
            None => {
                if !self.name.is_empty() {
                    write!(f, "{} ", self.name)?;
                }
                self.shape.write(f, self.tail.as_ref())?;
            }
        }
        f.write_str(close)
    }
}

impl fmt::Display for Struct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, None)
    }
}

impl Struct {
    /// Writes its fields, and what follows it.
    fn write(&self, f: &mut fmt::Formatter<'_>, tail: Option<&Field>) -> fmt::Result {
        f.write_str("{")?;
        for (at, field) in self.fields.iter().enumerate() {
            f.write_str(if at == 0 { " " } else { ", " })?;
            write!(f, "{}: {field}", field.name)?;
        }
        if let Some(tail) = tail {
            let separator = if self.fields.is_empty() { " " } else { ", " };
            write!(f, "{separator}{}: {tail}[]", tail.name)?;
        }
        f.write_str(" }")
    }
}

/// Writes the field's type, without its name.
impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.item {
            Item::Number(number) => f.write_str(number.name())?,
            Item::Struct(nested) => fmt::Display::fmt(nested, f)?,
        }
        self.extents.iter().try_for_each(|extent| write!(f, "[{extent}]"))
    }
}
