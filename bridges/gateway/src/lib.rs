//! Topics, services, states and notifiers of a domain on other machines, over zenoh.
