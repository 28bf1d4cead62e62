//! The four patch formats: JSON patch, merge patch, strategic merge patch, server-side apply.
//!
//! Each takes the present object and a body and returns the wished object; what is allowed is decided afterwards by [`super::write`].

mod apply;
mod json;
mod strategic;

pub(crate) use apply::{Applied, parse_yaml, three_way};
pub(crate) use json::apply;
