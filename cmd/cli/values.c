// SPDX-License-Identifier: BSD-2-Clause
// Parsers of option values: numbers, times, sizes, choices, lists.
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/util.h"
#include "cli/options.h"

int read_flag(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	*(bool *)at = true;
	return 0;
}

int read_off(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	*(bool *)at = false;
	return 0;
}

int read_text(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	*(const char **)at = arg;
	return 0;
}

int read_output(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	*(const char **)at = strcmp(arg, "-") ? arg : NULL;
	return 0;
}

int read_pretty(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct globals *g = at;

	g->json = g->pretty = true;
	return 0;
}

static void print_log(const char *line)
{
	fprintf(stderr, "%s\n", line);
}

int read_debug(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct globals *g = at;

	g->debug = true;
	log_init(print_log);
	return 0;
}

/* --- numbers, times, sizes ------------------------------------------------------------------ */

static bool digits(const char *arg, uint64_t *ret_number)
{
	char *end;

	errno = 0;
	*ret_number = strtoull(arg, &end, 10);
	return isdigit((unsigned char)arg[0]) && !*end && !errno;
}

int read_number64(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	uint64_t n;

	if (!digits(arg, &n) || n < opt->min || n > opt->max)
		return err_set(err, -ERR_USAGE,
			"--%s '%s' is not a number from %llu to %llu", opt->name, arg,
			(unsigned long long)opt->min, (unsigned long long)opt->max);
	*(uint64_t *)at = n;
	return 0;
}

int read_number(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	uint64_t n = 0;
	int code = read_number64(&n, opt, arg, err);

	if (!code)
		*(uint32_t *)at = n;
	return code;
}

int read_from_one(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	uint64_t n;

	if (!digits(arg, &n) || !n)
		return err_set(err, -ERR_USAGE, "--%s '%s' is not a number above 0",
			opt->name, arg);
	*(size_t *)at = n;
	return 0;
}

#define SHARE_MAX_PERCENT 10000

/* A share of a CPU such as "5%", in millionths. */
int read_share(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	size_t len = strspn(arg, "0123456789.");
	double percent = strtod(arg, NULL);

	if (!isdigit((unsigned char)*arg) || strcmp(arg + len, "%") != 0 ||
		strchr(arg, '.') != strrchr(arg, '.'))
		return err_set(err, -ERR_USAGE,
			"--%s '%s' is not a share such as 5%%", opt->name, arg);
	if (percent < 0.01 || percent > SHARE_MAX_PERCENT)
		return err_set(err, -ERR_USAGE, "--%s '%s' is not from 0.01%% to %d%%",
			opt->name, arg, SHARE_MAX_PERCENT);
	*(uint32_t *)at =
		percent * 10000 + 1e-6; /* rounding error of a decimal fraction */
	return 0;
}

int read_duration(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	uint64_t *ns = at;

	if (duration_parse(arg, ns, err))
		return err_wrap(err, "--%s", opt->name);
	if (*ns < opt->min)
		return err_set(
			err, -ERR_USAGE, "--%s '%s' is too short", opt->name, arg);
	return 0;
}

/* "2", "0.5", or a duration with its unit. */
int read_seconds(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	char text[64];
	size_t len = strlen(arg);
	bool bare = len && (isdigit((unsigned char)arg[len - 1]) || arg[len - 1] == '.');
	uint64_t *ns = at;

	snprintf(text, sizeof(text), "%s%s", arg, bare ? "s" : "");
	if (len > 32 || duration_parse(text, ns, NULL))
		return err_set(err, -ERR_USAGE, "--%s '%s' is not a number of seconds",
			opt->name, arg);
	if (*ns < 1000000 || *ns > 1000000000000000ULL)
		return err_set(err, -ERR_USAGE,
			"--%s '%s' is not between 1 ms and 11 days", opt->name, arg);
	return 0;
}

static void put_size(uint64_t n, char buf[32])
{
	size_t unit = 0;

	for (; unit < 3 && n && !(n & 1023); n >>= 10)
		unit++;
	snprintf(buf, 32, "%llu%.1s", (unsigned long long)n, &"\0KMG"[unit]);
}

int read_size(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	char from[32], to[32], unit;
	uint64_t *bytes = at;
	size_t len = strlen(arg);

	unit = len ? toupper((unsigned char)arg[len - 1]) : 0;
	if (unit == 'K' || unit == 'M' || unit == 'G')
		arg[len - 1] = unit;
	if (!size_parse(arg, bytes) && *bytes >= opt->min && *bytes <= opt->max)
		return 0;
	if (opt->max == UINT64_MAX)
		return err_set(err, -ERR_USAGE, "--%s '%s' is not a size such as 4096, 64K, 1M or 2G",
			opt->name, arg);
	put_size(opt->min, from);
	put_size(opt->max, to);
	return err_set(err, -ERR_USAGE, "--%s '%s' is not a size from %s to %s",
		opt->name, arg, from, to);
}

/* --- one of several words ------------------------------------------------------------------- */

static const char *part_words(const struct option_row *opt, char buf[WORDS_LEN]);

const char *option_values(const struct option_row *opt, char buf[WORDS_LEN])
{
	if (opt->words)
		return opt->words(buf);
	return opt->read == read_parts && !opt->values ? part_words(opt, buf) : opt->values;
}

const char *values_text(const char *values, char buf[VALUES_LEN])
{
	size_t at = 0, len;

	for (*buf = '\0'; *values; values += len + (values[len] == '|')) {
		len = strcspn(values, "|");
		at += snprintf(buf + at, VALUES_LEN - at, "%s%.*s",
			!at                   ? ""
				: values[len] ? ", "
					      : " or ",
			(int)len, values);
	}
	return buf;
}

/* Stores the index of @arg in the values, plus .min. */
int read_choice(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	char buf[WORDS_LEN], text[VALUES_LEN];
	const char *values = option_values(opt, buf), *value = values;
	unsigned int choice = opt->min;
	size_t len;

	for (; *value; value += len + (value[len] == '|'), choice++) {
		len = strcspn(value, "|");
		if (strlen(arg) == len && !memcmp(arg, value, len)) {
			*(unsigned int *)at = choice;
			return 0;
		}
	}
	return err_set(err, -ERR_USAGE, "--%s is %s, not '%s'", opt->name,
		values_text(values, text), arg);
}

int read_second(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	unsigned int choice;
	int code = read_choice(&choice, opt, arg, err);

	if (!code)
		*(bool *)at = choice == 1;
	return code;
}

/* --- parts: "a=1,b" ------------------------------------------------------------------------- */

const char *option_part(const struct option_row *opt)
{
	const char *blank = opt->name ? strchr(opt->name, ' ') : NULL;

	return blank ? blank + 1 : NULL;
}

static const char *part_of(const struct option_row *opt, const struct option_row *row)
{
	size_t len = strlen(opt->name);

	return row->on & opt->on && row->name && !strncmp(row->name, opt->name, len) &&
			row->name[len] == ' '
		? row->name + len + 1
		: NULL;
}

/* "a=N|b|DUR" */
static const char *part_words(const struct option_row *opt, char buf[WORDS_LEN])
{
	size_t at = 0;

	for (const struct option_row *row = option_table; row->on; row++) {
		const char *part = part_of(opt, row);

		/* A part of several commands may have a row for each. */
		if (part && strcmp(row[-1].name, row->name) != 0)
			at += snprintf(buf + at, WORDS_LEN - at, "%s%s%s%s", at ? "|" : "", part,
				row->arg && islower((unsigned char)*part) ? "=" : "",
				row->arg && islower((unsigned char)*part) ? row->arg : "");
	}
	return buf;
}

/* Also sets @value to the text that the part parses. NULL: there is none, or its value lacks. */
static const struct option_row *find_part(
	const struct option_row *opt, char *item, char **ret_value)
{
	size_t len = strcspn(item, "=");

	for (const struct option_row *row = option_table; *item && row->on; row++) {
		const char *part = part_of(opt, row);

		if (!part)
			continue;
		*ret_value = isupper((unsigned char)*part) ? item
			: item[len]                        ? item + len + 1
							   : NULL;
		if (*ret_value == item ||
			(!strncmp(part, item, len) && !part[len] && !row->arg == !*ret_value))
			return row;
	}
	return NULL;
}

int read_parts(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	char words[WORDS_LEN], text[VALUES_LEN], *item, *value;
	int code = 0;

	while (!code && (item = strsep(&arg, ","))) {
		const struct option_row *part = find_part(opt, item, &value);

		code = part ? option_read(at, part, value, err)
			    : err_set(err, -ERR_USAGE, "--%s is %s, not '%s'", opt->name,
				      values_text(part_words(opt, words), text), item);
	}
	return code;
}

int read_old(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	return option_read(at, option_find(opt->on, opt->values), arg, err);
}

/* --- lists ---------------------------------------------------------------------------------- */

/* The value "all", if the option has it, adds nothing. */
static bool is_all(struct list *list, const struct option_row *opt, const char *arg)
{
	list->given = true;
	return opt->values && !strcmp(arg, opt->values);
}

void list_add(struct list *list, const void *value, size_t size)
{
	list->of = array_grow(list->of, list->cnt, size);
	memcpy((char *)list->of + list->cnt++ * size, value, size);
}

int read_texts(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	if (!is_all(at, opt, arg))
		list_add(at, &arg, sizeof(arg));
	return 0;
}

int read_numbers(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	uint32_t n;
	int code = 0;

	if (is_all(at, opt, arg))
		return 0;
	code = read_number(&n, opt, arg, err);
	if (!code)
		list_add(at, &n, sizeof(n));
	return code;
}

int read_users(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	uid_t uid = (uid_t)-1;
	gid_t gid = (gid_t)-1;

	if (is_all(at, opt, arg))
		return 0;
	if (strchr(arg, ':'))
		return err_set(err, -ERR_USAGE, "--%s '%s' is not a user", opt->name, arg);
	if (access_parse_owner(arg, &uid, &gid, err))
		return err_wrap(err, "--%s", opt->name);
	list_add(at, &uid, sizeof(uid));
	return 0;
}

/* "[FUNC=]DUR", or "off" for DUR if the option has that value. */
int read_slow(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	char *eq = strrchr(arg, '='), *dur = eq ? eq + 1 : arg;
	struct draft_slow slow = { .ns = SLOW_OFF };

	if ((!opt->values || strcmp(dur, opt->values) != 0) &&
		duration_parse(dur, &slow.ns, err))
		return err_wrap(err, "--%s", opt->name);
	if (eq) {
		*eq = '\0';
		slow.func = arg;
	}
	list_add(at, &slow, sizeof(slow));
	return 0;
}
