"""Rewards inside other people's trainers: TRL, ART, slime, tinker. A door for each, by its name.

    from harness.integrations import trl
    trainer = GRPOTrainer(..., reward_funcs=trl.reward(judge_model="gpt-6.1-terra"))

Each trainer's module is a door of its own. This room knows the signatures of trainers and imports none of them; how
groups are judged is for harness.api to know.
"""
