// SPDX-License-Identifier: BSD-2-Clause
// Builds output in memory: numbers, times, escaped names, JSON, protocol buffers.
#include <endian.h>
#include <stdarg.h>

#include "base/buffer.h"
#include "base/text.h"
#include "base/util.h"

#define FIRST_SIZE 4096

static const char two_digits[] = "00010203040506070809"
				 "10111213141516171819"
				 "20212223242526272829"
				 "30313233343536373839"
				 "40414243444546474849"
				 "50515253545556575859"
				 "60616263646566676869"
				 "70717273747576777879"
				 "80818283848586878889"
				 "90919293949596979899";

#define U64_DIGITS 20
#define HEX_DIGITS 16

/* Writes @v backwards from @end. Returns its start. */
static char *digits_before(char *end, uint64_t v)
{
	for (; v >= 100; v /= 100) {
		end -= 2;
		memcpy(end, two_digits + v % 100 * 2, 2);
	}
	if (v >= 10) {
		end -= 2;
		memcpy(end, two_digits + v * 2, 2);
	} else {
		*--end = (char)('0' + v);
	}
	return end;
}

/* Writes @cnt digits, an even number. */
static char *put_digits(char *to, uint32_t v, int cnt)
{
	for (int i = cnt - 2; i >= 0; i -= 2, v /= 100)
		memcpy(to + i, two_digits + v % 100 * 2, 2);
	return to + cnt;
}

#define EACH_BYTE(c) (0x0101010101010101ULL * (c))

/* Writes eight hexadecimal digits, computed in parallel in the bytes of one word. */
static void put_hex(char *to, uint32_t v)
{
	uint64_t x = v;

	x = (x << 16 | x) & 0x0000ffff0000ffffULL;
	x = (x << 8 | x) & 0x00ff00ff00ff00ffULL;
	x = (x << 4 | x) & EACH_BYTE(0x0f);
	/* 10 and above are letters: adding 6 carries. */
	x += EACH_BYTE('0') + ((x + EACH_BYTE(6)) >> 4 & EACH_BYTE(1)) * ('a' - '0' - 10);
	x = htobe64(x);
	memcpy(to, &x, sizeof(x));
}

/* --- escaping ------------------------------------------------------------------------------- */

static char *put_hex_byte(char *to, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";

	*to++ = hex[c >> 4];
	*to++ = hex[c & 15];
	return to;
}

/* Returns nonzero if a byte of @x is 0. */
static uint64_t zero_bytes(uint64_t x)
{
	return (x - EACH_BYTE(1)) & ~x & EACH_BYTE(0x80);
}

/* Returns the number of bytes at the start of @s that need no escaping. */
static size_t plain_len(const unsigned char *s, size_t len)
{
	size_t i = 0;
	uint64_t x;

	for (; len - i >= sizeof(x); i += sizeof(x)) {
		memcpy(&x, s + i, sizeof(x));
		/* Control characters, DEL, non-ASCII; and the quote and backslash of JSON. */
		if ((((x - EACH_BYTE(0x20)) | (x + EACH_BYTE(1)) | x) &
			    EACH_BYTE(0x80)) ||
			zero_bytes(x ^ EACH_BYTE('"')) || zero_bytes(x ^ EACH_BYTE('\\')))
			break;
	}
	while (i < len && s[i] >= 0x20 && s[i] < 0x7f && s[i] != '"' && s[i] != '\\')
		i++;
	return i;
}

/* Letters of the escapes \b, \t, \n, (none), \f, \r. */
static const char control_letters[] = "btn\0fr";

static char *json_char(char *to, const unsigned char *s, size_t len, bool letters)
{
	if (!len) {
		memcpy(to, "\\\\x", 3);
		return put_hex_byte(to + 3, *s);
	}
	if (letters && *s >= '\b' && *s <= '\r' && control_letters[*s - '\b']) {
		*to++ = '\\';
		*to++ = control_letters[*s - '\b'];
		return to;
	}
	if (utf8_is_control(s, len)) {
		memcpy(to, "\\u00", 4);
		return put_hex_byte(to + 4, s[len - 1]);
	}
	if (*s == '"' || *s == '\\')
		*to++ = '\\';
	memcpy(to, s, len);
	return to + len;
}

/* --- public --------------------------------------------------------------------------------- */

char *out_grow(struct out *o, size_t size)
{
	size_t want = o->size ? o->size : FIRST_SIZE;

	if (size > SIZE_MAX / 4)
		alloc_failed();
	while (want - o->len < size)
		want *= 2;
	o->buf = xreallocarray(o->buf, want, 1);
	o->size = want;
	return o->buf + o->len;
}

void out_u64(struct out *o, uint64_t v)
{
	char buf[U64_DIGITS], *at = digits_before(buf + sizeof(buf), v);

	out_mem(o, at, buf + sizeof(buf) - at);
}

void out_i64(struct out *o, int64_t v)
{
	if (v < 0)
		out_char(o, '-');
	out_u64(o, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

void out_hex(struct out *o, uint64_t v)
{
	int cnt = v ? (67 - __builtin_clzll(v)) / 4 : 1;
	char *to = out_room(o, 2 + HEX_DIGITS);

	v <<= 64 - cnt * 4;
	memcpy(to, "0x", 2);
	put_hex(to + 2, v >> 32);
	put_hex(to + 10, (uint32_t)v);
	o->len += 2 + cnt;
}

void out_printf(struct out *o, const char *fmt, ...)
{
	size_t room = 128, len;
	va_list ap;

	va_start(ap, fmt);
	len = vsnprintf(out_room(o, room), room, fmt, ap);
	va_end(ap);
	if (len >= room) {
		va_start(ap, fmt);
		vsnprintf(out_room(o, len + 1), len + 1, fmt, ap);
		va_end(ap);
	}
	o->len += len;
}

void out_pad(struct out *o, size_t from, size_t width)
{
	size_t has = o->len - from, cnt = has < width ? width - has : 0;
	char *to = out_room(o, cnt);

	memset(to, ' ', cnt);
	o->len += cnt;
}

/*
 * Computes the Gregorian date with years that start in March, so that the leap day is the last day.
 * 400 years have 146097 days; 1970-01-01 is 719468 days after March 1 of year 0. From March on,
 * each five months have 153 days.
 */
void out_time(struct out *o, uint64_t realtime_ns)
{
	uint64_t s = realtime_ns / 1000000000;
	uint32_t ns = realtime_ns % 1000000000, day = s / 86400 + 719468,
		 rest = s % 86400;
	uint32_t of_era = day % 146097;
	uint32_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	uint32_t of_year = of_era - (365 * year + year / 4 - year / 100);
	uint32_t month = (5 * of_year + 2) / 153;
	char *to = out_room(o, sizeof("2026-11-20T12:00:00.000000001Z")), *start = to;

	year += day / 146097 * 400 + (month > 9);
	to = put_digits(to, year, 4);
	*to++ = '-';
	to = put_digits(to, month < 10 ? month + 3 : month - 9, 2);
	*to++ = '-';
	to = put_digits(to, of_year - (153 * month + 2) / 5 + 1, 2);
	*to++ = 'T';
	to = put_digits(to, rest / 3600, 2);
	*to++ = ':';
	to = put_digits(to, rest / 60 % 60, 2);
	*to++ = ':';
	to = put_digits(to, rest % 60, 2);
	*to++ = '.';
	to = put_digits(to, ns / 10, 8);
	*to++ = (char)('0' + ns % 10);
	*to++ = 'Z';
	o->len += to - start;
}

bool locale_is_utf8(void)
{
	static const char *const variables[] = { "LC_ALL", "LC_CTYPE", "LANG" };
	static int known = -1;
	const char *value = NULL;

	for (size_t i = 0; known < 0 && i < ARRAY_SIZE(variables); i++) {
		value = getenv(variables[i]);
		if (value && *value)
			break;
	}
	if (known < 0)
		known = value && (strcasestr(value, "utf-8") || strcasestr(value, "utf8"));
	return known;
}

void out_escaped(struct out *o, const char *str, size_t len)
{
	const unsigned char *s = (const unsigned char *)str;
	size_t room = strnlen(str, len), one;
	char *to = out_room(o, room * 4), *start = to;
	bool all = locale_is_utf8();

	for (; room; s += one, room -= one) {
		one = utf8_len(s, room);
		if (one && !utf8_is_control(s, one) &&
			(one == 1 || (all && !utf8_is_layout(s, one)))) {
			memcpy(to, s, one);
			to += one;
			continue;
		}
		one = 1;
		memcpy(to, "\\x", 2);
		to = put_hex_byte(to + 2, *s);
	}
	o->len += to - start;
}

void out_utf8(struct out *o, const char *str)
{
	for (size_t room = strlen(str), one; room; str += one, room -= one) {
		one = utf8_len(str, room);
		if (one)
			out_mem(o, str, one);
		else
			out_printf(o, "\\x%02x", (unsigned char)*str);
		one = one ? one : 1;
	}
}

static void put_json(struct out *o, const char *str, size_t len, bool letters)
{
	const unsigned char *s = (const unsigned char *)str;
	size_t room = strnlen(str, len), one;
	char *to = out_room(o, room * 6 + 2), *start = to;

	*to++ = '"';
	while (room) {
		one = plain_len(s, room);
		memcpy(to, s, one);
		to += one;
		s += one;
		room -= one;
		if (!room)
			break;
		one = utf8_len(s, room);
		to = json_char(to, s, one, letters);
		one = one ? one : 1;
		s += one;
		room -= one;
	}
	*to++ = '"';
	o->len += to - start;
}

void out_json(struct out *o, const char *str, size_t len)
{
	put_json(o, str, len, false);
}

void out_done(struct out *o)
{
	free(o->buf);
	*o = (struct out) {};
}

/* --- JSON, value by value ------------------------------------------------------------------- */

void json_line(struct json *j)
{
	out_char(j->out, '\n');
	out_pad(j->out, j->out->len, (size_t)j->depth * 2);
}

void json_open(struct json *j, char bracket)
{
	json_value(j);
	out_char(j->out, bracket);
	j->depth++;
	j->place = JSON_FIRST;
}

void json_close(struct json *j, char bracket)
{
	j->depth--;
	/* An empty value takes two lines, for compatibility. */
	if (j->pretty)
		json_line(j);
	out_char(j->out, bracket);
	j->place = JSON_NEXT;
}

void json_null(struct json *j)
{
	json_value(j);
	out_str(j->out, "null");
}

void json_bool(struct json *j, bool value)
{
	json_value(j);
	out_str(j->out, value ? "true" : "false");
}

void json_u64(struct json *j, uint64_t value)
{
	json_value(j);
	out_u64(j->out, value);
}

void json_str_len(struct json *j, const char *value, size_t len)
{
	json_value(j);
	put_json(j->out, value, len, j->letters);
}

void json_str(struct json *j, const char *value)
{
	if (value)
		json_str_len(j, value, SIZE_MAX);
	else
		json_null(j);
}

void json_real(struct json *j, const char *fmt, ...)
{
	char text[64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	json_value(j);
	out_str(j->out, text);
}

void json_set_open(struct json *j, const char *key, char bracket)
{
	json_key(j, key);
	json_open(j, bracket);
}

void json_set_null(struct json *j, const char *key)
{
	json_key(j, key);
	json_null(j);
}

void json_set_bool(struct json *j, const char *key, bool value)
{
	json_key(j, key);
	json_bool(j, value);
}

void json_set_u64(struct json *j, const char *key, uint64_t value)
{
	json_key(j, key);
	json_u64(j, value);
}

void json_set_hex(struct json *j, const char *key, uint64_t value)
{
	json_key(j, key);
	json_value(j);
	out_char(j->out, '"');
	out_hex(j->out, value);
	out_char(j->out, '"');
}

void json_set_i64(struct json *j, const char *key, int64_t value)
{
	json_key(j, key);
	json_value(j);
	out_i64(j->out, value);
}

void json_set_str(struct json *j, const char *key, const char *value)
{
	json_key(j, key);
	json_str(j, value);
}

void json_set_u64_if(struct json *j, const char *key, bool known, uint64_t value)
{
	json_key(j, key);
	if (known)
		json_u64(j, value);
	else
		json_null(j);
}

/* --- protocol buffers -------------------------------------------------------------------------- */

/* Wire types: https://protobuf.dev/programming-guides/encoding */
#define NUMBER  0
#define FIXED64 1
#define BYTES   2

#define VARINT_LEN 10 /* at most */

static size_t varint(char *to, uint64_t n)
{
	size_t len = 0;

	for (; n > 0x7f; n >>= 7)
		to[len++] = (char)(n | 0x80);
	to[len++] = (char)n;
	return len;
}

void proto_varint(struct out *o, uint64_t n)
{
	char *to = out_room(o, VARINT_LEN);

	o->len += varint(to, n);
}

void proto_u64(struct out *o, unsigned int field, uint64_t n)
{
	proto_varint(o, field << 3 | NUMBER);
	proto_varint(o, n);
}

void proto_double(struct out *o, unsigned int field, double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	bits = htole64(bits);
	proto_varint(o, field << 3 | FIXED64);
	out_mem(o, (const char *)&bits, sizeof(bits));
}

void proto_bytes(struct out *o, unsigned int field, const char *bytes, size_t len)
{
	proto_varint(o, field << 3 | BYTES);
	proto_varint(o, len);
	out_mem(o, bytes, len);
}

void proto_str(struct out *o, unsigned int field, const char *text)
{
	proto_bytes(o, field, text, strlen(text));
}

size_t proto_open(struct out *o, unsigned int field)
{
	proto_varint(o, field << 3 | BYTES);
	return o->len;
}

void proto_close(struct out *o, size_t at)
{
	char head[VARINT_LEN];
	size_t len = o->len - at, head_len = varint(head, len);

	out_room(o, head_len);
	memmove(o->buf + at + head_len, o->buf + at, len);
	memcpy(o->buf + at, head, head_len);
	o->len += head_len;
}
