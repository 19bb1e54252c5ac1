//! What a topic's attributes say about how it is to be seen.
//!
//! | attribute | value |
//! | --- | --- |
//! | `view.as` | `image`, `compressed-image`, `points`, `scan`, `transforms`, `log`, or `json`: its fields, whatever their names |
//! | `view.encoding` | of an image `rgb8`, `mono16`, …; of a compressed one `jpeg`, `png`, `webp`, `avif` |
//! | `view.frame` | the frame of reference, where messages name none; `world` otherwise |

/// What answers the question for an attribute.
pub type Attribute<'a> = &'a dyn Fn(&str) -> Option<String>;

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    /// What messages are.
    pub seen_as: Option<As>,
    /// The value of `view.as`, if this program does not know it.
    pub unknown: Option<String>,
    /// The encoding of images.
    pub encoding: Option<String>,
    /// The frame of reference.
    pub frame: Option<String>,
}

/// What messages can be seen as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum As {
    /// A picture, pixel by pixel.
    Image,
    /// A picture as JPEG or the like.
    CompressedImage,
    /// A cloud of points.
    Points,
    /// The distances of one turn of a laser.
    Scan,
    /// Where frames of reference are.
    Transforms,
    /// A line of a log.
    Log,
    /// Fields.
    Json,
}

const WORDS: [(&str, As); 7] = [
    ("image", As::Image),
    ("compressed-image", As::CompressedImage),
    ("points", As::Points),
    ("scan", As::Scan),
    ("transforms", As::Transforms),
    ("log", As::Log),
    ("json", As::Json),
];

impl Hints {
    /// Reads them.
    pub fn of(attribute: Attribute<'_>) -> Hints {
        let word = attribute("view.as");
        let seen_as = word.as_deref().and_then(|word| WORDS.iter().find(|known| known.0 == word));
        Hints {
            unknown: word.clone().filter(|_| seen_as.is_none()),
            seen_as: seen_as.map(|known| known.1),
            encoding: attribute("view.encoding"),
            frame: attribute("view.frame"),
        }
    }

    /// Whether messages may be seen as that: by the attribute, or because it says nothing.
    pub fn lets(&self, one: As) -> bool {
        self.seen_as.is_none_or(|said| said == one)
    }

    /// Whether the attribute says so.
    pub fn says(&self, one: As) -> bool {
        self.seen_as == Some(one)
    }

    /// Returns the frame of reference of a message that names this one, or none.
    pub fn frame(&self, named: Option<String>) -> String {
        let named = named.filter(|named| !named.is_empty());
        named.or_else(|| self.frame.clone()).unwrap_or_else(|| "world".to_owned())
    }
}
