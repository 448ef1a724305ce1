"""A training loop without a framework, on `harness.rollout_groups` (docs/trainers.md)."""

import torch

import harness


def ratios(policy, sequence):
    """Return how probable each trained token is now, over how probable it was when it was sampled."""
    ids = torch.tensor(sequence.token_ids)
    trained = torch.tensor(sequence.mask[1:], dtype=torch.bool)
    logits = policy(ids[None, :-1]).logits[0]
    now = logits.log_softmax(-1).gather(1, ids[1:, None])[:, 0]
    return (now - torch.tensor(sequence.logprobs[1:]))[trained].exp()

async def train(policy, publish, agent, queries, steps, lr=1e-5, **settings):
    version, rules = 0, harness.GroupRules(max_staleness=0, groups_per_step=2)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=lr)
    groups = harness.rollout_groups(agent, queries, policy_version=lambda: version, rules=rules, **settings)
    async with groups:
        for _ in range(steps):
            batch = [await anext(groups) for _ in range(rules.groups_per_step)]
            rollouts = [rollout for group in batch for rollout in group.rollouts]
            tokens = sum(sum(sequence.mask) for rollout in rollouts for sequence in rollout.sequences)
            for rollout in rollouts:
                for sequence in rollout.sequences:
                    ratio, advantage = ratios(policy, sequence), rollout.advantage
                    gain = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
                    (-gain.sum() / tokens).backward()
            optimizer.step()
            optimizer.zero_grad()
            publish(policy)  # the server samples from the new weights
            version += 1
            print(version, groups.figures)
