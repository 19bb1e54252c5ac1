//! What the messages of a file's channel are, as the live topic's were.

use std::ops::Range;
use std::sync::Arc;

use outlive::describe::{Description, Encoding};
use outlive_described::array::Array;
use outlive_described::cdr::Cdr;
use outlive_described::form;
use outlive_mcap::{Channel, Schema};

use crate::bag_bytes::BagBytes;
use crate::described::Described;
use crate::layout::Layout;

/// See the file's head.
pub(crate) struct BagChannel {
    pub(crate) channel: Arc<Channel>,
    pub(crate) schema: Option<Arc<Schema>>,
    pub(crate) described: Described,
    /// Of described values that are in the file as CDR.
    pub(crate) cdr: Option<Cdr>,
    /// Of arrays from Python.
    pub(crate) array: Option<Array>,
}

impl BagChannel {
    pub(crate) fn new(channel: Arc<Channel>, schema: Option<Arc<Schema>>) -> BagChannel {
        let own = form::description(&channel.metadata);
        let is_cdr = channel.message_encoding == "cdr";
        let cdr = own.as_ref().filter(|_| is_cdr).and_then(|own| Cdr::of(own.clone()));
        let array = match own {
            None => Array::of_channel(&channel.metadata),
            Some(_) => None,
        };
        // A channel of another program says its encoding by itself.
        let foreign = || match channel.message_encoding.as_str() {
            "msgpack" => Description::encoded("", Encoding::Msgpack).ok(),
            "json" => Description::encoded("", Encoding::Json).ok(),
            _ => None,
        };
        let described = Described::new(own.or_else(foreign));
        BagChannel { channel, schema, described, cdr, array }
    }

    /// Returns the layout of a message that is an array.
    pub(crate) fn layout(&self, len: usize) -> Option<Layout> {
        let array = self.array.as_ref()?;
        Layout::of_array(&array.own(len)?, len, array.text())
    }

    /// Returns the bytes of a described value, where they lie or as a copy, and how many. `None`: they lie
    /// as they are.
    pub(crate) fn value_of(
        &self,
        chunk: &Arc<Vec<u8>>,
        range: &Range<usize>,
    ) -> Option<(BagBytes, usize)> {
        let cdr = self.cdr.as_ref()?;
        let bytes = &chunk[range.clone()];
        if let Some(lies) = cdr.lies_in(bytes) {
            let (begin, len) = (range.start + lies.start, lies.len());
            return Some((BagBytes::shared(chunk, begin..begin + len), len));
        }
        // What is no value of the type was put there by a program that did not know it: bytes.
        let len = cdr.decoded_len(bytes)?;
        let mut value = vec![0; len];
        cdr.decode(bytes, &mut value)?;
        Some((BagBytes::own(value, false), len))
    }
}
