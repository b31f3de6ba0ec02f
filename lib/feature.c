// SPDX-License-Identifier: BSD-2-Clause
// From answers of experiments to the planner's rules.
#include "feature.h"
#include "feature_cache.h"
#include "feature_priv.h"

bool feature_experiments(bool fresh, struct experiment_result results[EXPERIMENT_CNT])
{
	if (!fresh && feature_cache_read(results))
		return true;
	if (experiments_run(results))
		feature_cache_write(results);
	return false;
}

void feature_set_rules(struct plan_rules *rules, const struct experiment_result *results)
{
	rules->nop5_unsafe = results[EXPERIMENT_NOP5].answer != ANSWER_YES;
	rules->multinop_emulated = results[EXPERIMENT_MULTINOP].answer == ANSWER_YES;
	rules->call_unsafe = results[EXPERIMENT_CALL].answer != ANSWER_YES;
	rules->return_unsafe = results[EXPERIMENT_RETURN].answer == ANSWER_NO ||
		results[EXPERIMENT_SECCOMP].answer != ANSWER_YES ||
		results[EXPERIMENT_SHADOW].answer != ANSWER_YES;
}

void feature_rules(struct plan_rules *rules)
{
	struct experiment_result results[EXPERIMENT_CNT];

	feature_experiments(false, results);
	feature_set_rules(rules, results);
}
