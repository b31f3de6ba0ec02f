// SPDX-License-Identifier: BSD-2-Clause
/* How calls are printed: numbers, times, escaped names; and the speed of printing. */
#include "show/call.h"

#include <time.h>

#include "base/util.h"
#include "written.h"

/* --- against the C library --------------------------------------------------------------- */

static uint64_t random_word(void)
{
	static uint64_t state = 88172645463325252ULL;

	/* Marsaglia's xorshift; the shift makes short numbers as likely as long ones. */
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state >> (state & 63);
}

static bool numbers_right(uint64_t v)
{
	struct out o = {};
	char want[100];
	bool good;

	out_u64(&o, v);
	out_char(&o, ' ');
	out_i64(&o, (int64_t)v);
	out_char(&o, ' ');
	out_hex(&o, v);
	snprintf(want, sizeof(want), "%llu %lld 0x%llx", (unsigned long long)v,
		(long long)v, (unsigned long long)v);
	good = same(&o, want);
	out_done(&o);
	return good;
}

static void test_numbers(void)
{
	bool good = numbers_right(0) && numbers_right(UINT64_MAX) &&
		numbers_right(1ULL << 63);

	for (int bit = 0; good && bit < 64; bit++)
		good = numbers_right(1ULL << bit) && numbers_right((1ULL << bit) - 1);
	for (uint64_t v = 1; good && v <= 1000000000000000000ULL; v *= 10)
		good = numbers_right(v) && numbers_right(v - 1) && numbers_right(-v);
	for (int i = 0; good && i < 200000; i++)
		good = numbers_right(random_word());
	ok(good, "numbers are those of printf");
}

static bool time_right(uint64_t ns)
{
	time_t s = (time_t)(ns / 1000000000);
	struct out o = {};
	char date[40], want[80];
	struct tm tm;
	bool good;

	gmtime_r(&s, &tm);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(want, sizeof(want), "%s.%09uZ", date, (unsigned int)(ns % 1000000000));
	out_time(&o, ns);
	good = same(&o, want);
	out_done(&o);
	return good;
}

static void test_times(void)
{
	const uint64_t day_ns = 86400000000000;
	bool good = time_right(UINT64_MAX);

	/* Each day until 2261, its first and last moment: leap years, 2000, 2100, 2200. */
	for (uint64_t day = 0; good && day < 106300; day++)
		good = time_right(day * day_ns) && time_right(day * day_ns + day_ns - 1);
	for (int i = 0; good && i < 100000; i++)
		good = time_right(random_word());
	ok(good, "times are those of gmtime and strftime");
}

/* --- names ------------------------------------------------------------------------------- */

static void test_names(void)
{
	static const struct {
		const char *name, *text, *json;
	} cases[] = {
		{ "", "", "\"\"" },
		{ "cudaMalloc", "cudaMalloc", "\"cudaMalloc\"" },
		{ "12345678\"", "12345678\"", "\"12345678\\\"\"" },
		{ "a\\b/c", "a\\b/c", "\"a\\\\b/c\"" },
		{ "\x01\t\n\x1b[m\x7f", "\\x01\\x09\\x0a\\x1b[m\\x7f",
			"\"\\u0001\\u0009\\u000a\\u001b[m\\u007f\"" },
		{ "caf\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
			"caf\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
			"\"caf\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
		/* A control character of two bytes; one that is not. */
		{ "\xc2\x9b \xc2\xa0", "\\xc2\\x9b \xc2\xa0", "\"\\u009b \xc2\xa0\"" },
		/* Bytes alone, cut, overlong, a surrogate, beyond U+10FFFF. */
		{ "\x80\xff", "\\x80\\xff", "\"\\\\x80\\\\xff\"" },
		{ "\xe2\x82", "\\xe2\\x82", "\"\\\\xe2\\\\x82\"" },
		{ "\xc0\xaf", "\\xc0\\xaf", "\"\\\\xc0\\\\xaf\"" },
		{ "\xe0\x80\xaf", "\\xe0\\x80\\xaf",
			"\"\\\\xe0\\\\x80\\\\xaf\"" },
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80",
			"\"\\\\xed\\\\xa0\\\\x80\"" },
		{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80",
			"\"\\\\xf4\\\\x90\\\\x80\\\\x80\"" },
	};
	struct out o = {};
	bool text = true, json = true;

	setenv("LC_ALL", "C.UTF-8", 1);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		out_escaped(&o, cases[i].name, SIZE_MAX);
		text &= same(&o, cases[i].text);
		out_json(&o, cases[i].name, SIZE_MAX);
		json &= same(&o, cases[i].json);
	}
	ok(text, "a terminal gets no control character and no broken UTF-8");
	ok(json, "names are JSON strings of valid UTF-8");
	out_json(&o, "caf\xc3\xa9", 4);
	out_escaped(&o, "caf\xc3\xa9", 4);
	out_escaped(&o, "ab\0cd", 5);
	ok(same(&o, "\"caf\\\\xc3\"caf\\xc3ab"),
		"a name ends at its length or a zero byte");
	out_done(&o);
}

/* Names are scanned in words of eight bytes: test each byte at each position. */
static void test_bytes(void)
{
	char name[20], one[8], want[40];
	struct out o = {};
	bool good = true;

	for (int c = 1; c < 256; c++)
		for (size_t at = 0; at < sizeof(name) - 1; at++) {
			memset(name, 'x', sizeof(name) - 1);
			name[sizeof(name) - 1] = '\0';
			name[at] = (char)c;
			if (c < 0x20 || c == 0x7f)
				snprintf(one, sizeof(one), "\\u%04x", (unsigned int)c);
			else if (c > 0x7f)
				snprintf(one, sizeof(one), "\\\\x%02x", (unsigned int)c);
			else
				snprintf(one, sizeof(one), "%s%c",
					c == '"' || c == '\\' ? "\\" : "", c);
			snprintf(want, sizeof(want), "\"%.*s%s%s\"", (int)at, name, one,
				name + at + 1);
			out_json(&o, name, SIZE_MAX);
			good &= same(&o, want);
		}
	ok(good, "a byte is escaped wherever it stands");
	out_done(&o);
}

static void test_buffer(void)
{
	struct out o = {};
	bool good = true;

	for (int i = 0; i < 100000; i++)
		out_char(&o, (char)('a' + i % 26));
	for (size_t i = 0; i < o.len; i++)
		good &= o.buf[i] == (char)('a' + i % 26);
	ok(good && o.len == 100000 && o.size >= o.len, "a buffer grows");
	o.len = 0;
	out_str(&o, "ab");
	out_pad(&o, 0, 4);
	out_pad(&o, 0, 3);
	out_pad(&o, 3, 4);
	ok(same(&o, "ab     "), "padding is added up to a width");
	out_done(&o);
	ok(!o.buf && !o.len && !o.size, "a buffer is empty when it is done");
}

/* --- the whole line ---------------------------------------------------------------------- */

static const struct type_code codes[] = { { 0, "cudaSuccess" },
	{ 2, "cudaErrorMemoryAllocation" },
	{ 35, "cudaErrorInsufficientDriver" } };
static const struct type_codes error_codes = { codes, ARRAY_SIZE(codes) };
static const struct preset_arg malloc_args[] = {
	{ .name = "devPtr",
		.value = { TYPE_POINTER, 8, false, NULL },
		.place = { PLACE_REG, 0, 1, false } },
	{ .name = "size",
		.value = { TYPE_INT, 8, false, NULL },
		.place = { PLACE_REG, 1, 1, false } },
};
static const struct type_codes *const malloc_codes[2];
static const struct func_types malloc_types = { .has_args = true,
	.has_ret = true,
	.ret = { TYPE_INT, 4, true, NULL },
	.ret_codes = &error_codes,
	.args = malloc_args,
	.arg_codes = malloc_codes,
	.arg_cnt = 2 };

#define CALL_WORDS \
	"\"group\":\"cuda\",\"function\":\"cudaMalloc\",\"pid\":28501,\"tid\":28502,\"comm\":\"python3\","
#define CALL_ARGS "\"args\":{\"devPtr\":\"0x7fff13573ae4\",\"size\":1048576}"
#define CALL_END \
	"\"ret\":35,\"ret_name\":\"cudaErrorInsufficientDriver\",\"duration_ns\":147000,\"noise_ns\":900,\"slow\":false,\"failed\":true,"

static struct call malloc_call(void)
{
	return (struct call){
		.start = 14139233523853,
		.duration = 147000,
		.result = 0xdeadbeef00000023,
		.args = { { 0x7fff13573ae4, 1048576, 1, 0, 0x7f0c5a200000, 6 } },
		.fn = 17,
		.pid = 28501,
		.tid = 28502,
		.flags = FSN_CALL_FAILED,
		.comm = "python3",
	};
}

static struct shown_call shown(const struct call *call, const struct func_types *types)
{
	return (struct shown_call){ .call = call,
		.group = "cuda",
		.function = "cudaMalloc",
		.types = types,
		.noise_ns = 900,
		.ahead_ns = 1795237831521573649 - 14139233523853 };
}

static void test_forms(void)
{
	struct call call = malloc_call();
	const struct shown_call c = shown(&call, &malloc_types);
	struct out o = {};
	struct json j = { .out = &o };

	call_json(&j, &c, CALL_WHOLE);
	ok(same(&o,
		   "{\"type\":\"call\",\"ts_ns\":14139233523853,\"time\":\"2026-11-21T05:10:31.521573649Z\"," CALL_WORDS
			   CALL_ARGS "," CALL_END "\"cookie\":17}"),
		"a call");
	call_json(&j, &c, CALL_ENTRY);
	ok(same(&o,
		   "{\"type\":\"entry\",\"ts_ns\":14139233523853,\"time\":\"2026-11-21T05:10:31.521573649Z\"," CALL_WORDS
			   CALL_ARGS ",\"cookie\":17}"),
		"an entry has nothing of the end");
	call_json(&j, &c, CALL_EXIT);
	ok(same(&o,
		   "{\"type\":\"exit\",\"ts_ns\":14139233670853,\"time\":\"2026-11-21T05:10:31.521720649Z\"," CALL_WORDS
			   CALL_ARGS "," CALL_END "\"cookie\":17}"),
		"an exit has its own time");
	call.flags = FSN_CALL_UNTIMED | FSN_CALL_NO_RESULT | FSN_CALL_NO_ARGS | FSN_CALL_SLOW;
	call_json(&j, &c, CALL_EXIT);
	ok(same(&o,
		   "{\"type\":\"exit\",\"ts_ns\":14139233670853,\"time\":\"2026-11-21T05:10:31.521720649Z\"," CALL_WORDS
		   "\"args\":null,\"ret\":null,\"ret_name\":null,\"duration_ns\":null,\"noise_ns\":null,"
		   "\"slow\":true,\"failed\":false,\"cookie\":17}"),
		"what is not known is null, but not when it ended");
	call_args_text(&o, &c);
	call_result_text(&o, &c);
	ok(same(&o, "??"), "and a question mark");
	out_done(&o);
}

/* A structure of two words, the last of which are the 20th and 21st of the stack. */
static void test_places(void)
{
	static const struct fsn_more more = { .stack = { [18] = 18, 19 }, .str = { 20 } };
	struct preset_arg arg = { .name = "s",
		.value = { TYPE_STRUCT, 16, false, NULL },
		.place = { PLACE_STACK, 18, 2, false } };
	static const struct type_codes *const no_codes[1];
	const struct func_types types = {
		.has_args = true, .args = &arg, .arg_codes = no_codes, .arg_cnt = 1
	};
	const struct call call = malloc_call();
	struct shown_call c = shown(&call, &types);
	struct out o = {};
	struct json j = { .out = &o };

	c.more = &more;
	call_args_text(&o, &c);
	ok(same(&o, "s={0x12,0x13}"), "the last words of the stack that are kept");
	arg.place.index = 19;
	call_args_text(&o, &c);
	ok(same(&o, "s=?"), "a structure that is not kept whole is not seen");
	/* Never written so, but by another's text in a group's map. */
	arg.place.index = 18;
	arg.value.size = 24;
	call_args_text(&o, &c);
	ok(same(&o, "s=?"), "nor is one that is larger than its place");
	c.more = NULL;
	json_open(&j, '{');
	call_args_json(&j, &c);
	json_close(&j, '}');
	ok(same(&o, "{\"args\":{\"s\":null}}"), "nor anything of a stack that was not kept");
	out_done(&o);
}

/* Printed for the reader: nothing depends on it, as the machine may be busy. */
static void time_lines(const char *what, const struct func_types *types)
{
	struct call call = malloc_call();
	const struct shown_call c = shown(&call, types);
	struct out o = {};
	struct json j = { .out = &o };
	uint64_t start_ns, ns, best_ns = UINT64_MAX;
	const int cnt = 500;
	size_t bytes = 0;

	for (int round = 0; round < 400; round++) {
		start_ns = clock_ns(CLOCK_MONOTONIC);
		for (int i = 0; i < cnt; i++) {
			call.start += 1000;
			call.duration = 147000 + (uint64_t)i % 1000;
			if (o.len > 1 << 16)
				o.len = 0;
			bytes = o.len;
			call_json(&j, &c, CALL_WHOLE);
			bytes = o.len - bytes;
		}
		ns = clock_ns(CLOCK_MONOTONIC) - start_ns;
		best_ns = ns < best_ns ? ns : best_ns;
	}
	printf("# a line of %zu bytes, %s: %.0f ns\n", bytes, what,
		(double)best_ns / cnt);
	out_done(&o);
}

int main(void)
{
	test_numbers();
	test_times();
	test_names();
	test_bytes();
	test_buffer();
	test_forms();
	test_places();
	time_lines("two arguments with types", &malloc_types);
	time_lines("six registers", NULL);
	return tap_done();
}
