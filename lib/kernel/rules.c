// SPDX-License-Identifier: BSD-2-Clause
// From answers of experiments to the planner's rules; they are kept until the next boot.
#include <stdio.h>
#include <string.h>

#include "base/bootcache.h"
#include "base/util.h"
#include "kernel/rules.h"

#define CACHE_FILE "feature"

/* --- the cache of answers: a line for each experiment ---------------------------------------- */

static const char answers[] = {
	[ANSWER_UNKNOWN] = '?', [ANSWER_NO] = 'n', [ANSWER_YES] = 'y'
};

static bool take_line(char *line, size_t number, struct experiment_result *ret)
{
	const char *answer;

	if (line[0] != (char)('0' + number) || line[1] != ' ' || !line[2] ||
		line[3] != ' ')
		return false;
	answer = memchr(answers, line[2], sizeof(answers));
	if (!answer || !line[4] || strlen(line + 4) >= sizeof(ret->why))
		return false;
	for (const char *c = line + 4; *c; c++)
		if (*c < ' ' || *c > '~')
			return false;
	ret->answer = (enum answer)(answer - answers);
	strcpy(ret->why, line + 4);
	return true;
}

static bool take_text(char *text, struct experiment_result results[EXPERIMENT_CNT])
{
	struct experiment_result found[EXPERIMENT_CNT];
	char *line = text, *end;

	for (size_t i = 0; i < EXPERIMENT_CNT; i++) {
		end = strchr(line, '\n');
		if (!end)
			return false;
		*end = '\0';
		if (!take_line(line, i, &found[i]))
			return false;
		line = end + 1;
	}
	if (*line)
		return false;
	memcpy(results, found, sizeof(found));
	return true;
}

static bool cache_read(struct experiment_result results[EXPERIMENT_CNT])
{
	_cleanup_free_ char *text = bootcache_read(CACHE_FILE);

	return text && take_text(text, results);
}

static void cache_write(const struct experiment_result results[EXPERIMENT_CNT])
{
	char text[BOOTCACHE_MAX];
	size_t len = 0;

	for (size_t i = 0; i < EXPERIMENT_CNT && len < sizeof(text); i++)
		len += snprintf(text + len, sizeof(text) - len, "%zu %c %s\n", i,
			answers[results[i].answer], results[i].why);
	bootcache_write(CACHE_FILE, text);
}

/* --- rules ----------------------------------------------------------------------------------- */

bool kernel_experiments(bool fresh, struct experiment_result results[EXPERIMENT_CNT])
{
	if (!fresh && cache_read(results))
		return true;
	if (experiments_run(results))
		cache_write(results);
	return false;
}

void kernel_rules_from(struct plan_rules *rules, const struct experiment_result *results)
{
	rules->nop5_unsafe = results[EXPERIMENT_NOP5].answer != ANSWER_YES;
	rules->multinop_emulated = results[EXPERIMENT_MULTINOP].answer == ANSWER_YES;
	rules->call_unsafe = results[EXPERIMENT_CALL].answer != ANSWER_YES;
	rules->return_unsafe = results[EXPERIMENT_RETURN].answer == ANSWER_NO ||
		results[EXPERIMENT_SECCOMP].answer != ANSWER_YES ||
		results[EXPERIMENT_SHADOW].answer != ANSWER_YES;
}

void kernel_rules(struct plan_rules *rules)
{
	struct experiment_result results[EXPERIMENT_CNT];

	kernel_experiments(false, results);
	kernel_rules_from(rules, results);
}
