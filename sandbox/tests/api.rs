//! The simulated API server, as clients see it.

#[path = "api/custom.rs"]
mod custom;
#[path = "api/evictions.rs"]
mod evictions;
#[path = "api/faults.rs"]
mod faults;
#[path = "api/garbage.rs"]
mod garbage;
#[path = "api/kubectl.rs"]
mod kubectl;
#[path = "api/objects.rs"]
mod objects;
#[path = "api/support.rs"]
mod support;
#[path = "api/watches.rs"]
mod watches;
#[path = "api/wire.rs"]
mod wire;
