//! What a restart of the server has lost: agents that were there do not come back
//! (`wire/goldfive.md` §0.6).

use std::{sync::Arc, time::Duration};

use registry::{
    Run, Settled, Wish,
    approval::DeliveryState,
    command::Observation,
    names::ControlId,
    run::{Presence, Source},
};
use tokio::time::timeout;

use super::{
    facts,
    persist::{hex, until_judged, warn_of},
};
use crate::serve::owner::Owner;

/// How long a start may be held up by a disk that is full.
const PATIENCE: Duration = Duration::from_secs(10);

/// After a start, and before anybody is let in: marks away the runs whose agents are gone, and ends what was on its way
/// to them. It may have arrived; nobody will say.
pub async fn part_from_the_lost(owner: &Owner) {
    if timeout(PATIENCE, part(owner)).await.is_err() {
        tracing::error!(
            "goldfive: nothing can be recorded; agents that are gone may be shown as there"
        );
    }
}

async fn part(owner: &Owner) {
    let (runs, decided) = lost(owner);
    for run in runs {
        let away = Wish::Attend {
            run: run.id,
            here: false,
        };
        tell(owner, run.key.agent.raw(), away).await;
    }
    for settled in decided {
        fail(owner, &settled).await;
    }
}

fn lost(owner: &Owner) -> (Vec<Arc<Run>>, Vec<Arc<Settled>>) {
    let state = owner.state();
    let theirs = |run: &&Arc<Run>| {
        let attached = run.presence == Presence::Attached && !run.state.is_over();
        run.key.source == Source::Goldfive && attached
    };
    let runs = state.runs().filter(theirs).cloned().collect();
    let decided = state.all_settled().filter(|it| is_under_way(it));
    (runs, decided.cloned().collect())
}

fn is_under_way(settled: &Settled) -> bool {
    let sent = settled
        .delivery
        .as_ref()
        .is_none_or(|delivery| delivery.state == DeliveryState::Sent);
    settled.approval.from.source == Source::Goldfive && settled.decision().is_some() && sent
}

/// What was decided and not yet sent has a delivery, too, which has failed.
async fn fail(owner: &Owner, settled: &Settled) {
    let (id, agent) = (settled.approval.id, settled.approval.from.agent.raw());
    let control = match &settled.delivery {
        Some(delivery) => delivery.control.clone(),
        None => {
            let Ok(control) = ControlId::parse(&format!("ctl_{}", hex().await)) else {
                return;
            };
            let sent = Observation::Sent {
                id,
                control: control.clone(),
            };
            tell(owner, agent, Wish::Observe(sent)).await;
            control
        }
    };
    let detail =
        "the server was restarted before the agent answered; whether it took this is not known";
    let acked = Observation::Acked {
        id,
        control,
        success: false,
        detail: detail.into(),
    };
    tell(owner, agent, Wish::Observe(acked)).await;
}

async fn tell(owner: &Owner, agent: &str, wish: Wish) {
    let by = facts::principal(agent);
    let told = until_judged(|| owner.submit(by.clone(), wish.clone())).await;
    if let Err(refusal) = told {
        warn_of("not recorded", &refusal);
    }
}
