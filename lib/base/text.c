// SPDX-License-Identifier: BSD-2-Clause
// Names of groups, patterns, the table of strings, and the nearest name.
#include <ctype.h>
#include <inttypes.h>

#include "base/text.h"
#include "base/util.h"

/* --- Durations as people write them: a number with ns, us, ms, s, m or h ------------------------------- */

static const struct unit {
	const char *name;
	uint64_t ns;
} units[] = {
	{ "s", 1000000000 },
	{ "ms", 1000000 },
	{ "us", 1000 },
	{ "µs", 1000 },
	{ "ns", 1 },
	{ "m", 60000000000 },
	{ "h", 3600000000000 },
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Adds the next digit; false when the sum exceeds 2^63 - 1. */
static bool add_digit(uint64_t *sum, char digit)
{
	if (__builtin_mul_overflow(*sum, 10, sum) ||
		__builtin_add_overflow(*sum, (uint64_t)(digit - '0'), sum))
		return false;
	return *sum <= INT64_MAX;
}

/* The digits after the point, in ns; 0, or -1 when they are finer than a nanosecond. */
static int read_fraction(
	const char *p, const char *end, uint64_t unit_ns, uint64_t *ret_ns)
{
	uint64_t ns = 0;

	for (; p < end; p++) {
		if (unit_ns % 10 && *p != '0')
			return -1;
		unit_ns /= 10;
		ns += unit_ns * (uint64_t)(*p - '0');
	}
	*ret_ns = ns;
	return 0;
}

static int not_duration(struct err *err, const char *text)
{
	return err_set(err, -EINVAL,
		"'%s' is not a duration (a number with ns, us, ms, s, m or h)", text);
}

int duration_parse(const char *text, uint64_t *ret_ns, struct err *err)
{
	const char *p = text, *frac = NULL, *frac_end = NULL;
	uint64_t whole = 0, part = 0, ns;
	size_t i;

	for (; is_digit(*p); p++)
		if (!add_digit(&whole, *p))
			return err_set(err, -EINVAL, "'%s' is too long a time", text);
	if (p == text)
		return not_duration(err, text);
	if (*p == '.') {
		for (frac = ++p; is_digit(*p); p++)
			;
		frac_end = p;
		if (frac == frac_end)
			return not_duration(err, text);
	}
	for (i = 0; i < ARRAY_SIZE(units); i++)
		if (!strcmp(p, units[i].name))
			break;
	if (i == ARRAY_SIZE(units) && !*p)
		return err_set(err, -EINVAL, "'%s' has no unit (ns, us, ms, s, m or h)", text);
	if (i == ARRAY_SIZE(units))
		return not_duration(err, text);
	if (frac && read_fraction(frac, frac_end, units[i].ns, &part))
		return err_set(err, -EINVAL, "'%s' is finer than a nanosecond", text);
	if (__builtin_mul_overflow(whole, units[i].ns, &ns) || ns > INT64_MAX - part)
		return err_set(err, -EINVAL, "'%s' is too long a time", text);
	*ret_ns = ns + part;
	return 0;
}

const char *duration_format(uint64_t ns, char buf[DURATION_LEN])
{
	static const struct unit out[] = {
		{ "ns", 1 },
		{ "us", 1000 },
		{ "ms", 1000000 },
		{ "s", 1000000000 },
	};
	uint64_t whole = ns, milli = 0;
	size_t u;

	for (u = 0; u + 1 < ARRAY_SIZE(out); u++) {
		uint64_t unit = out[u].ns, third = unit / 1000;

		/* Rounded to what is printed, so that 999.9996 us is 1ms. */
		whole = ns / unit;
		milli = third ? (ns % unit + third / 2) / third : 0;
		if (whole + milli / 1000 < 1000)
			break;
	}
	if (u + 1 == ARRAY_SIZE(out)) {
		whole = ns / out[u].ns;
		milli = (ns % out[u].ns + 500000) / 1000000;
	}
	whole += milli / 1000;
	milli %= 1000;
	snprintf(buf, DURATION_LEN, "%" PRIu64 ".%03" PRIu64, whole, milli);
	for (char *p = buf + strlen(buf) - 1; *p == '0' || *p == '.'; p--) {
		bool point = *p == '.';

		*p = '\0';
		if (point)
			break;
	}
	strcat(buf, out[u].name);
	return buf;
}

int size_parse(const char *text, uint64_t *ret_bytes)
{
	static const char sizes[] = "KMGT";
	unsigned long long n;
	const char *unit;
	char *end;

	errno = 0;
	n = strtoull(text, &end, 10);
	unit = *end ? strchr(sizes, *end) : NULL;
	for (const char *u = sizes; unit && u <= unit && !errno; u++) {
		errno = n >> 54 ? ERANGE : 0;
		n <<= 10;
	}
	if (*text < '0' || *text > '9' || errno || end[unit != NULL])
		return -EINVAL;
	*ret_bytes = n;
	return 0;
}

/* --- names of groups ------------------------------------------------------------------------ */

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

int group_name_check(const char *name, struct err *err)
{
	static const char *const taken[] = { "functions", "presets", "inflight", "targets",
		"allocations", "crashes", "help", "all" };
	size_t len = strlen(name);

	if (!len)
		return err_set(err, -EINVAL, "a group needs a name");
	if (len > GROUP_NAME_MAX)
		return err_set(err, -EINVAL,
			"group name '%.64s%s' is longer than %d characters", name,
			len > 64 ? "..." : "", GROUP_NAME_MAX);
	for (const char *p = name; *p; p++)
		if (!is_alnum(*p) && (p == name || (*p != '_' && *p != '-')))
			return err_set(err, -EINVAL,
				"'%s' can't name a group (letters, digits, _ and -, the first a letter or digit)",
				name);
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		if (!strcmp(name, taken[i]))
			return err_set(err, -EINVAL,
				"'%s' can't name a group: it has a meaning of its own",
				name);
	return 0;
}

/* --- patterns ------------------------------------------------------------------------------- */

/*
 * Matches one character against the set at @p (after '['). Returns the position after the set, or
 * NULL if it is not terminated, so that '[' is literal.
 */
static const char *match_set(const char *p, unsigned char c, bool *ret_hit)
{
	bool negate = *p == '!' || *p == '^', hit = false, first = true;

	p += negate;
	for (; *p && (first || *p != ']'); first = false) {
		unsigned char low = *p, high = *p;

		if (*p == '\\' && p[1])
			low = high = *++p;
		p++;
		if (p[0] == '-' && p[1] && p[1] != ']') {
			high = *++p;
			if (high == '\\' && p[1])
				high = *++p;
			p++;
		}
		if (c >= low && c <= high)
			hit = true;
	}
	if (*p != ']')
		return NULL;
	*ret_hit = hit != negate;
	return p + 1;
}

/* Matches one character at @glob, which is not '*'. Returns the rest of the glob, or NULL. */
static const char *match_one(const char *glob, unsigned char c)
{
	const char *after;
	bool hit;

	switch (*glob) {
	case '\0':
		return NULL;
	case '?':
		return glob + 1;
	case '[':
		after = match_set(glob + 1, c, &hit);
		if (after)
			return hit ? after : NULL;
		break;
	case '\\':
		if (glob[1])
			glob++;
		break;
	default:
		break;
	}
	return (unsigned char)*glob == c ? glob + 1 : NULL;
}

bool pattern_is_glob(const char *text)
{
	return strpbrk(text, "*?[") != NULL;
}

bool pattern_glob(const char *glob, const char *name)
{
	const char *star = NULL, *star_name = NULL, *next;

	while (*name) {
		if (*glob == '*') {
			star = ++glob;
			star_name = name;
			if (!*glob)
				return true;
			continue;
		}
		next = match_one(glob, *name);
		if (next) {
			glob = next;
			name++;
			continue;
		}
		if (!star)
			return false;
		/* the last star takes one more: earlier ones never need to */
		glob = star;
		name = ++star_name;
	}
	while (*glob == '*')
		glob++;
	return !*glob;
}

int pattern_init(
	struct pattern *p, enum pattern_kind kind, const char *text, struct err *err)
{
	char why[128];
	int ret;

	memset(p, 0, sizeof(*p));
	p->kind = kind;
	if (kind == PATTERN_GLOB) {
		p->glob = xstrdup(text);
		return 0;
	}
	ret = regcomp(&p->regex, text, REG_EXTENDED | REG_NOSUB);
	if (ret) {
		regerror(ret, &p->regex, why, sizeof(why));
		return err_set(
			err, -EINVAL, "bad regular expression '%s': %s", text, why);
	}
	p->has_regex = true;
	return 0;
}

void pattern_done(struct pattern *p)
{
	free(p->glob);
	if (p->has_regex)
		regfree(&p->regex);
	memset(p, 0, sizeof(*p));
}

bool pattern_match(const struct pattern *p, const char *name)
{
	if (p->kind == PATTERN_GLOB)
		return pattern_glob(p->glob, name);
	return regexec(&p->regex, name, 0, NULL, 0) == 0;
}

/* --- strings, each held once, by an open hash table ----------------------------------------- */

#define FIRST_SLOTS 256

uint64_t hash_add(uint64_t hash, const void *bytes, size_t size)
{
	const unsigned char *p = bytes;

	while (size--)
		hash = (hash ^ *p++) * 0x100000001b3ULL;
	return hash;
}

static uint32_t *find(const struct strtab *t, const char *str)
{
	uint64_t hash = hash_add(HASH_BEGIN, str, strlen(str));
	size_t i = (hash ^ hash >> 32) & (t->slot_cnt - 1);

	while (t->slot[i] && strcmp(t->buf + t->slot[i] - 1, str))
		i = (i + 1) & (t->slot_cnt - 1);
	return &t->slot[i];
}

static void grow_slots(struct strtab *t)
{
	size_t cnt = t->slot_cnt ? t->slot_cnt * 2 : FIRST_SLOTS;
	struct strtab bigger = { .buf = t->buf, .slot_cnt = cnt };

	bigger.slot = xcalloc(cnt, sizeof(*bigger.slot));
	for (size_t i = 0; i < t->slot_cnt; i++)
		if (t->slot[i])
			*find(&bigger, t->buf + t->slot[i] - 1) = t->slot[i];
	free(t->slot);
	t->slot = bigger.slot;
	t->slot_cnt = cnt;
}

static uint32_t append(struct strtab *t, const char *str)
{
	size_t size = strlen(str) + 1, offset = t->len, room = 4096;

	if (offset + size > UINT32_MAX / 2)
		alloc_failed();
	while (room < offset + size)
		room *= 2;
	t->buf = xreallocarray(t->buf, room, 1);
	memcpy(t->buf + offset, str, size);
	t->len += size;
	return offset;
}

uint32_t strtab_add(struct strtab *t, const char *str)
{
	uint32_t *slot;

	if (!t->buf)
		append(t, "");
	if (!str || !*str)
		return 0;
	if (t->used * 2 >= t->slot_cnt)
		grow_slots(t);
	slot = find(t, str);
	if (!*slot) {
		*slot = append(t, str) + 1;
		t->used++;
	}
	return *slot - 1;
}

void strtab_done(struct strtab *t)
{
	free(t->buf);
	free(t->slot);
	memset(t, 0, sizeof(*t));
}

const char *strtab_at(const char *buf, size_t len, uint32_t offset)
{
	if (offset >= len || !memchr(buf + offset, '\0', len - offset))
		return "";
	return buf + offset;
}

/* --- the names nearest to one that was not found -------------------------------------------- */

#define DISTANCE_MAX_LEN 255

/* Edits that make another name: a quarter of the letters, or one of three letters. */
static unsigned int limit_of(size_t len)
{
	return len > 3 ? len / 4 : len > 2;
}

static unsigned int min3(unsigned int a, unsigned int b, unsigned int c)
{
	unsigned int m = a < b ? a : b;

	return m < c ? m : c;
}

/*
 * Edit distance of two names (insert, delete, replace, swap of neighbours), or @max + 1
 * when it is over @max. Names over 255 bytes are @max + 1 apart.
 */
static unsigned int distance(const char *a, const char *b, unsigned int max)
{
	unsigned int rows[3][DISTANCE_MAX_LEN + 1];
	size_t n = strnlen(a, DISTANCE_MAX_LEN + 1), m = strnlen(b, DISTANCE_MAX_LEN + 1);
	unsigned int *before = rows[0], *prev = rows[1], *cur = rows[2], *t;

	if (n > DISTANCE_MAX_LEN || m > DISTANCE_MAX_LEN || (n > m ? n - m : m - n) > max)
		return max + 1;
	for (size_t j = 0; j <= m; j++)
		prev[j] = j;
	for (size_t i = 1; i <= n; i++) {
		unsigned int least = cur[0] = i;

		for (size_t j = 1; j <= m; j++) {
			bool same = tolower((unsigned char)a[i - 1]) ==
				tolower((unsigned char)b[j - 1]);

			cur[j] = min3(prev[j] + 1, cur[j - 1] + 1, prev[j - 1] + !same);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
				a[i - 2] == b[j - 1] && before[j - 2] + 1 < cur[j])
				cur[j] = before[j - 2] + 1;
			if (cur[j] < least)
				least = cur[j];
		}
		if (least > max)
			return max + 1;
		t = before;
		before = prev;
		prev = cur;
		cur = t;
	}
	return prev[m] > max ? max + 1 : prev[m];
}

/* Returns the distance of @name from the requested name; above the limit means "not similar". */
static unsigned int score_of(const struct suggest *s, const char *name)
{
	size_t len = strlen(name);
	unsigned int limit = limit_of(s->len), best = s->cnt ? s->score[s->cnt - 1] : ~0u;
	unsigned int d;

	if (s->cnt < SUGGEST_MAX || best > limit)
		best = limit;
	if (len + limit >= s->len && len <= s->len + limit) {
		d = distance(s->wanted, name, best);
		if (d <= limit)
			return d;
	}
	/* one inside the other, for names long enough to mean something */
	if (s->len >= 3 && len > s->len && strcasestr(name, s->wanted))
		return limit + 1 + (len - s->len > 64 ? 64 : len - s->len);
	if (len >= 6 && s->len > len && strcasestr(s->wanted, name))
		return limit + 1 + (s->len - len > 64 ? 64 : s->len - len);
	return ~0u;
}

void suggest_init(struct suggest *s, const char *wanted)
{
	*s = (struct suggest) { .wanted = wanted, .len = strlen(wanted) };
}

unsigned int suggest_distance(const char *wanted, const char *name)
{
	unsigned int limit = limit_of(strlen(wanted)), edits = distance(wanted, name, limit);

	return edits > limit ? ~0u : edits;
}

void suggest_offer(struct suggest *s, const char *name, const char *where)
{
	suggest_offer_at(s, name, score_of(s, name), where);
}

void suggest_offer_at(struct suggest *s, const char *name, unsigned int score, const char *where)
{
	size_t at = 0;

	if (score == ~0u || strcmp(name, s->wanted) == 0)
		return;
	while (at < s->cnt && s->score[at] <= score) {
		if (strcmp(s->names[at], name) == 0)
			return;
		at++;
	}
	if (at == SUGGEST_MAX)
		return;
	for (size_t i = at; i < s->cnt; i++) {
		if (strcmp(s->names[i], name) == 0)
			return; /* the same name has the same score */
	}
	if (s->cnt < SUGGEST_MAX)
		s->cnt++;
	for (size_t i = s->cnt - 1; i > at; i--) {
		s->names[i] = s->names[i - 1];
		s->where[i] = s->where[i - 1];
		s->score[i] = s->score[i - 1];
	}
	s->names[at] = name;
	s->where[at] = where;
	s->score[at] = score;
}

bool suggest_is_near(const struct suggest *s)
{
	return s->cnt && s->score[0] <= limit_of(s->len);
}

size_t suggest_text(const struct suggest *s, char *buf, size_t size)
{
	size_t len = 0, cnt = s->cnt;
	int n;

	if (size)
		buf[0] = '\0';
	/* distant names are useless next to a close one */
	while (cnt > 1 && s->score[cnt - 1] > s->score[0] + s->score[0] / 2)
		cnt--;
	for (size_t i = 0; i < cnt && len < size; i++) {
		const char *before = i + 1 < cnt ? ", " : " or ";

		if (!i)
			before = "did you mean ";
		n = snprintf(buf + len, size - len, "%s'%s%s'%s%s", before,
			s->prefix ? s->prefix : "", s->names[i], s->where[i] ? " in " : "",
			s->where[i] ? s->where[i] : "");
		if (n < 0)
			break;
		len += n;
	}
	return len < size ? len : size ? size - 1 : 0;
}

bool suggest_hint(struct err *err, const char *wanted, const char *const *words)
{
	struct suggest s;
	char text[ERR_HINT_LEN];

	suggest_init(&s, wanted);
	for (; *words; words++)
		suggest_offer(&s, *words, NULL);
	if (!suggest_text(&s, text, sizeof(text)))
		return false;
	err_hint(err, "%s", text);
	return true;
}
