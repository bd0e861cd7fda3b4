//! The demo: a server on a temporary directory, its dashboard, and simulated agents.

use registry::Timestamp;

use super::{
    args::{self, Place},
    dashboard,
    exit::Stopped,
    host::{Doors, Host},
    verbs,
};
use crate::{
    demo::{Demo, Patience, Script},
    serve::{clock::Clock, home::Home},
};

/// Until the operator leaves; then nothing is left of it.
pub(crate) async fn demo(place: &Place, wanted: &args::Demo) -> Result<u8, Stopped> {
    dashboard::needs_a_terminal()?;
    let dir = tempfile::Builder::new()
        .prefix("pilothouse-demo-")
        .tempdir();
    let dir = dir.map_err(|error| Stopped::fault(error.to_string()))?;
    let home = Home::take(dir.path()).map_err(Stopped::fault)?;
    let socket = place.socket.clone();
    let doors = Doors::local(socket.unwrap_or_else(|| dir.path().join("sock")));
    let clock = wanted.at.map_or(Clock::System, Clock::standing);
    let mut host = Host::start(home, doors, clock.clone(), Box::new(verbs::fatal))?;
    let set_back = |ago: std::time::Duration| {
        if let Some(at) = wanted.at {
            let ago = i64::try_from(ago.as_millis()).unwrap_or(0);
            clock.set(Timestamp::from_ms(at.ms().saturating_sub(ago)));
        }
    };
    let script = Script {
        seed: wanted.seed,
        only: wanted.scene,
        patience: wanted.at.map_or(Patience::Ends, |_| Patience::Endless),
    };
    let agents = Demo::begin(&host.client(), script, set_back).await;
    // A picture is the same wherever it is drawn.
    let address = match wanted.at {
        None => format!("--server {}", host.addresses()),
        Some(at) => format!("the clock stands at {at}"),
    };
    let banner = format!("DEMO, nothing real · {address} · simulated agents ask");
    let code = dashboard::run(host.client(), "DEMO".into(), Some(banner)).await;
    drop(agents);
    host.stop.stop();
    host.until_it_ends().await?;
    code
}
