// SPDX-License-Identifier: BSD-2-Clause
// The cache of answers: a line for each experiment.
#include <stdio.h>
#include <string.h>

#include "bootcache.h"
#include "feature.h"
#include "feature_cache.h"

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

bool feature_cache_read(struct experiment_result results[EXPERIMENT_CNT])
{
	char text[BOOTCACHE_MAX];

	return bootcache_read(FEATURE_CACHE_FILE, text) && take_text(text, results);
}

void feature_cache_write(const struct experiment_result results[EXPERIMENT_CNT])
{
	char text[BOOTCACHE_MAX];
	size_t len = 0;

	for (size_t i = 0; i < EXPERIMENT_CNT && len < sizeof(text); i++)
		len += snprintf(text + len, sizeof(text) - len, "%zu %c %s\n", i,
			answers[results[i].answer], results[i].why);
	bootcache_write(FEATURE_CACHE_FILE, text);
}
