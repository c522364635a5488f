"""Sketch rules: schedules for programs that nobody wrote a template for. See `plan` for how they work."""

from autosched.space.rules.generate import cpu_rules, generated, gpu_rules, rule_names
from autosched.space.rules.plan import Place, Plan, Rule, rule

__all__ = ["Place", "Plan", "Rule", "cpu_rules", "generated", "gpu_rules", "rule", "rule_names"]
