#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes jinja_cases.jsonl: small templates of our own and what Jinja2 makes of them.

    pip install jinja2==3.1.6 && python3 tests/data/make_jinja_cases.py

The environment is the one transformers' apply_chat_template sets up. A line holds the template, its
variables, and the text, or the class of the error ("raise_exception" with its exact message).
"""
import datetime
import json
import os

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Raised(Exception):
    pass


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise Raised(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, "jinja2.ext.loopcontrols"])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = datetime.datetime(2026, 1, 15, 12, 34, 56).strftime
    return env


# What most expressions below are about.
V = {
    "s": "Hello, World", "u": "Grüße, 世界 😀!", "e": "", "sp": "  two  words \n", "n": None,
    "t": True, "f": False, "i": 7, "neg": -3, "x": 2.5, "big": 12345678901234567890,
    "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "nested": [[1, 2], [3, [4, None]]],
    "d": {"b": 1, "a": "two", "C": [1.0, None, True], "items": "shadowed"},
    "ms": [{"role": "user", "content": "hi", "n": 2}, {"role": "assistant", "content": "yo", "n": 1},
           {"role": "user", "content": "<b>", "n": 3}],
    "empty": [], "ed": {}, "quote": "it's \"q\" \\ \n\t\x07é",
}

# One expression a line; each becomes {{ expression }}.
EXPRESSIONS = r"""
s
u
n
t
f
i
x
big
l
nested
d
ms
quote
[quote]
["it's"]
['say "x"']
['\u200b\u00ad\x7f\xa0\u3000é😀']
missing
missing.attr
missing['attr']
missing + 1
missing == missing
missing == none
missing ~ 'x'
not missing
missing|length
missing|list
missing is defined
missing is undefined
missing is iterable
missing is sequence
missing is string
missing is none
missing|default('dflt')
missing|d
n|default('dflt')
n|default('dflt', true)
e|default('dflt', boolean=true)
missing|tojson
missing in l
'a' in missing
1 in missing
missing()
missing[1:2]
d.missing
d.missing.deeper
d['missing'] is defined
d.b
d['b']
d.items
d['items']
d.items()
d.keys()
d.values()
d.items()|list
d.keys()|list
d.get('a')
d.get('zz')
d.get('zz', 5)
d.get('zz') is none
d.pop('a')
d.update({'q': 1})
l.append(4)
l.append is defined
l.sort()
l.copy()
l.count(1)
l.index(2)
l.index(9)
s.__class__
s.__class__ is defined
s.__len__()
s._private
n.attr
n['attr']
n[0]
i.real_nothing
(1, 2)
(1,)
()
[]
{}
{'a': 1, 'a': 2}
{1: 'x', true: 'y'}
{none: 1, 2.5: 2, (1, 2): 3}
{[1]: 2}
1 + 2
1 - 2
2 * 3
7 / 2
6 / 2
7 // 2
-7 // 2
7 // -2
7 % 3
-7 % 3
7 % -3
2 ** 10
2 ** -1
2 ** 3 ** 2
-2 ** 2
7.5 // 2
-7.5 // 2
7.5 % 2
-7.5 % 2
7.5 % -2
1 / 0
1 // 0
1 % 0
1.0 / 0
1e300 * 1e300
-1e300 * 1e300
1 + 1.5
0.1 + 0.2
1e16
1e15
123456789012345680.0
1e-5
0.0001
-0.0
1.5e-7
100.0
1e22
5e-324
1.7976931348623157e308
0x1F
0b101
0o17
1_000_000
1_0.5_0
1e3
true + 1
true + true
true * 'ab'
'ab' * 3
3 * 'ab'
'ab' * 0
'ab' * -1
[1] * 2
(1, 2) * 2
'a' + 'b'
'a' + 1
1 + 'a'
'a' + none
[1] + [2]
(1,) + (2,)
[1] + (2,)
{} + {}
'a' ~ 1 ~ none ~ 2.5 ~ [1]
1 ~ 2
-i
+i
-true
-s
- - 3
not 0
not ''
not []
not {}
1 == 1.0
1 == true
'1' == 1
[1, 2] == [1, 2]
[1, 2] == (1, 2)
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
1 != 2
1 < 2 < 3
1 < 3 < 2
3 > 2 >= 2
1 < 'a'
'a' < 'b'
'Z' < 'a'
'ä' > 'z'
[1, 2] < [1, 3]
[1] < [1, 0]
(1, 'a') < (1, 'b')
none < 1
none == none
1 in l
9 in l
9 not in l
not 1 in l
'ell' in s
'' in s
1 in s
'b' in d
1 in d
[1] in d
2 in (1, 2)
1 in 5
'x' in none
1 == 1 and 2 == 2
0 or 'x'
0 or '' or none
'' or 0
1 and 2
0 and 2
none and 1/0
1 or 1/0
'a' if true
'a' if false
'a' if false else 'b'
('a' if false) is defined
1 if 0 else 2 if 0 else 3
s if s is string else 1
s[0]
s[-1]
s[100]
u[2]
u[-2]
u[7:9]
s[1:4]
s[:-1]
s[::2]
s[::-1]
u[::-1]
s[-3:]
s[5:2]
s[8:2:-2]
s[::0]
s['a']
l[0]
l[-1]
l[3]
l[-4]
l[1:]
l[::-1]
l[-2:]
l[5:]
l[:100]
l[true]
l[none:none]
l['x']
l[1.0]
l[0:'a']
(1, 2, 3)[1:]
d[0]
d[1:2]
range(5)[1:3]|list
range(10)[::-3]|list
range(5)
range(1, 10, 3)
range(3)|list
range(5, 0, -2)|list
range(0)|list
range(2)|length
range(3)[1]
range(3)[7] is defined
range(3) == range(0, 3, 1)
range(100001)
range(1, 2, 0)
range('a')
range(1.5)
l.0
nested[1][1][0]
nested.1.1.0
s|length
u|length
l|length
d|length
n|length
5|length
l|count
s|upper
u|upper
'straße ÿ ǆ'|upper
u|lower
'ÀÉÎ ΑΒΓ ЖЗИ'|lower
s|title
'hello wORLD-foo (bar) {x} [y] <z> it\'s'|title
'ß straße'|capitalize
s|capitalize
'hELLO'|capitalize
1|upper
none|lower
sp|trim
'xxhixx'|trim('x')
'xyhixy'|trim('yx')
5|trim
s|replace('l', 'L')
s|replace('l', 'L', 1)
s|replace('', '-')
s|replace('', '-', 2)
'aaa'|replace('aa', 'b')
1|replace('1', 2)
[1,2]|replace(',', ';')
l|join
l|join(', ')
ls|join(' ' ~ 1)
[1, none, true]|join('|')
ms|join(', ', attribute='role')
s|join('-')
d|join(',')
5|join
l|first
l|last
empty|first
empty|first is defined
empty|last
s|first
s|last
d|first
d.items()|last
l|list
s|list
d|list
n|list
5|list
l|reverse
l|reverse|list
s|reverse
u|reverse
l|sort
l|sort(reverse=true)
ls|sort
ls|sort(case_sensitive=true)
ls|sort(reverse=true)
ms|sort(attribute='n')
ms|sort(attribute='role')|map(attribute='n')|list
[1, 'a']|sort
[[2, 1], [1, 2]]|sort
[]|sort
ls|unique|list
['a', 'A', 'b', 'a']|unique|list
['a', 'A', 'b', 'a']|unique(case_sensitive=true)|list
ms|unique(attribute='role')|list|length
l|sum
l|sum(start=10)
ms|sum(attribute='n')
[1.5, 2]|sum
[[1],[2]]|sum(start=[])
['a']|sum
l|min
l|max
ls|min
ls|max
ls|max(case_sensitive=true)
ms|max(attribute='n')
empty|min
empty|max is defined
ms|map(attribute='role')|list
ms|map(attribute='zz')|list
ms|map(attribute='zz', default='?')|join
ms|map('length')|list
ls|map('upper')|list
ls|map('upper')|join(',')
ls|map('replace', 'a', 'z')|list
ls|map('nofilter')|list
ls|map('upper')
ls|map('upper')|length
ls|map('upper')|tojson
ls|map()|list
nested|map(attribute=0)|list
nested|map('first')|list
n|map('upper')|list
ms|selectattr('role', 'equalto', 'user')|list|length
ms|selectattr('role', '==', 'user')|map(attribute='content')|list
ms|selectattr('zz')|list
ms|selectattr('zz', 'defined')|list
ms|selectattr('n', 'gt', 1)|map(attribute='n')|list
ms|selectattr('role', 'in', ['user'])|list|length
ms|rejectattr('role', 'equalto', 'user')|list
ms|rejectattr('zz')|list|length
ms|selectattr('role', 'notest', 'user')|list
ms|selectattr()|list
n|selectattr('a')|list
l|select|list
[0, 1, '', none, 'a']|select|list
[0, 1, '', none, 'a']|reject|list
l|select('odd')|list
l|reject('odd')|list
l|select('greaterthan', 1)|list
l|select('divisibleby', 2)|list
ls|select('equalto', 'a')|list
ls|select('string')|list|length
(ls|select('equalto', 'zz')) is iterable
(ls|select('equalto', 'zz')) is sequence
'yes' if (ls|select('equalto', 'zz')) else 'no'
l|batch(2)|list
l|batch(2, 'x')|list
l|slice(2)|list
l|slice(2, 'x')|list
range(7)|slice(3)|list
range(7)|slice(3, 'f')|list
ms|groupby('role')|list|length
d|dictsort
d|dictsort(true)
{'b': 1, 'a': 2}|dictsort(by='value')
{'b': 1, 'a': 2}|dictsort(reverse=true)
l|dictsort
d|items|list
d|items
missing|items|list
l|items|list
d|items|length
{'a': 1}|attr('a')
s|attr('upper')()
5|abs
neg|abs
(-2.5)|abs
s|abs
'7'|int
'7.9'|int
'abc'|int
'abc'|int(5)
'0x1f'|int(0, 16)
'ff'|int(base=16)
' 12 '|int
'1_000'|int
7.9|int
-7.9|int
none|int
true|int
[]|int(3)
'1e3'|int
''|int
missing|int
'2.5'|float
'abc'|float
'abc'|float(1.5)
7|float
'1e3'|float
none|float
' -1.5 '|float
2.5|round
3.5|round
2.567|round(2)
2.675|round(2)
2.5|round(method='ceil')
2.5|round(0, 'floor')
-2.5|round
42|round
42.55|round(1, 'floor')
1234|round(-2)
7|round(0, 'ceil')
5|string
5|string ~ 'x'
none|string
l|string
s|safe
'<a>'|safe + '<b>'
'<b>' + '<a>'|safe
'<a>'|safe ~ '<b>'
('<a>'|safe)|upper + '&'
('<a> '|safe)|trim + '&'
('<a>'|safe)[0] + '<'
('<a>'|safe).replace('a', '<')
('<%s>'|safe) % '<'
('<{}>'|safe).format('<')
('<a>'|safe)|string + '<'
('<a>'|safe) * 2 + '<'
'a'|safe is escaped
'a' is escaped
'<a href="x">\'&</a>'|escape
'<a>'|e|e
'<a>'|e|forceescape
d|tojson
ms|tojson
quote|tojson
u|tojson
u|tojson(ensure_ascii=true)
'\u2028\x7f\b\f'|tojson
d|tojson(indent=2)
nested|tojson(indent=4)
[]|tojson(indent=2)
{}|tojson(indent=2)
{'a': {}, 'b': []}|tojson(indent=1)
d|tojson(indent='--')
d|tojson(separators=(',', ':'))
d|tojson(indent=2, separators=(',', ': '))
{'b': 1, 'a': {'d': 1, 'c': 2}}|tojson(sort_keys=true)
{'b': 1, 1: 2}|tojson(sort_keys=true)
{1: 2, none: 3, true: 4, 2.5: 5}|tojson
{(1, 2): 3}|tojson
(1, 2)|tojson
1.0|tojson
1e100|tojson
(1e300*1e300)|tojson
none|tojson
true|tojson
big|tojson
range(3)|tojson
d.items()|tojson
d.keys()|list|tojson
'a\nb\nc'|indent
'a\nb\nc'|indent(2)
'a\nb\nc'|indent(2, true)
'a\n\nb'|indent(2)
'a\n\nb'|indent(2, blank=true)
'a\nb'|indent('> ')
'a\nb\n'|indent(1)
''|indent(2, true)
5|indent
'foo bar baz qux'|truncate(9)
'foo bar baz qux'|truncate(9, true)
'foo bar baz qux'|truncate(11)
'foo bar baz qux'|truncate(9, false, '')
'foo bar baz qux'|truncate(9, leeway=0)
'foo bar baz'|wordcount
'x'|center(6)
'ab'|center(7)
'%s is %d'|format('a', 5)
'%(a)s'|format(a=1)
'%s'|format
'%s %s' % ('a', 1)
'%s' % 'a'
'%s' % l
'%d' % 3.7
'%5d|%-5d|%05d|%+d' % (1, 2, 3, 4)
'%.2f %5.1f %e %g' % (1.005, 2.25, 12345.678, 0.0001)
'%x %X %o' % (255, 255, 8)
'%r %s' % ('a', 'a')
'%%' % ()
'%c' % 65
'%(k)s-%(k)s' % {'k': 1}
'%s' % ()
'%d' % 'a'
'%s' % (1, 2)
'%s %s' % 1
'%10.3s|' % 'abcdef'
'{} {}'.format('a', 1)
'{0}{1}{0}'.format('a', 'b')
'{a} {b[0]} {b[1]}'.format(a=1, b=[2, 3])
'{a[b]}'.format(a=d)
'{:>5}|{:<5}|{:^5}|'.format('a', 'b', 'c')
'{:*^7}'.format('x')
'{:05d} {:+d} {:,}'.format(42, 42, 1234567)
'{:.2f} {:8.3f} {:e} {:g} {:%}'.format(3.14159, 2.5, 12345.6789, 0.00001, 0.25)
'{:x} {:X} {:#x} {:b} {:o}'.format(255, 255, 255, 5, 8)
'{!r} {!s}'.format('a', 'b')
'{{}} {}'.format(1)
'{:{}}|'.format('a', 5)
'{} {}'.format(1)
'{'.format(1)
'}'.format(1)
'{x}'.format(1)
'{:d}'.format('a')
'{:s}'.format('abc')
'{:.2}'.format('abc')
'{}'.format(none)
'{}'.format(l)
'{:5}'.format(true)
'{:,.2f}'.format(1234567.891)
s.upper()
s.lower()
s.title()
'they\'re bill\'s'.title()
s.capitalize()
s.swapcase()
sp.strip()
sp.lstrip()
sp.rstrip()
'xxaxx'.strip('x')
'abcba'.lstrip('ab')
'abcba'.rstrip('ab')
'ünïü'.strip('ü')
'a'.strip(none)
s.split()
s.split(', ')
s.split('l')
s.split('l', 1)
s.split('')
'a,b,,c'.split(',')
'a,b,,c'.rsplit(',', 1)
'a b  c'.split(none, 1)
'a b  c '.rsplit(none, 1)
' a b '.split()
''.split()
''.split(',')
'a b c'.split(maxsplit=1)
'a b c'.split(' ', 0)
'a</think>b</think>c'.split('</think>')[-1]
'a\nb\r\nc\n'.splitlines()
'a\nb\n'.splitlines(true)
'a=b=c'.partition('=')
'a=b=c'.rpartition('=')
'abc'.partition('=')
'abc'.rpartition('=')
s.startswith('Hell')
s.startswith(('X', 'H'))
s.startswith('ello', 1)
s.startswith(['H'])
s.endswith('ld')
s.endswith(('a', 'd'))
s.endswith(1)
s.find('o')
s.find('zz')
s.find('o', 5)
s.rfind('o')
u.find('世')
u.index('界')
s.index('zz')
s.count('l')
s.count('')
'aaaa'.count('aa')
s.replace('l', 'L')
s.replace('l', 'L', 1)
s.replace('l')
'-'.join(ls)
'-'.join(l)
''.join([])
', '.join('abc')
'abc'.removeprefix('ab')
'abc'.removesuffix('bc')
'7'.zfill(3)
'-7'.zfill(4)
'a'.ljust(3) ~ '|'
'a'.rjust(3, '*')
'ab'.center(5, '*')
'123'.isdigit()
'12a'.isdigit()
''.isdigit()
'abc'.isalpha()
'ab1'.isalnum()
' '.isspace()
'ABC'.isupper()
'abc1'.islower()
'1'.islower()
s.nomethod()
s.upper
s.upper(1)
1 is odd
2 is even
4 is divisibleby(2)
4 is divisibleby 3
1 is number
true is number
1.5 is number
1 is integer
true is integer
1.5 is float
true is boolean
true is true
1 is true
false is false
none is none
s is string
d is mapping
l is mapping
l is sequence
s is sequence
d is sequence
d is iterable
5 is iterable
none is iterable
d.items() is sequence
d.items() is iterable
range(2) is sequence
namespace() is mapping
s is not string
s is not none and 1
1 is eq 1
1 is equalto(1)
1 is ne 2
1 is == 1
1 is lt 2
2 is ge 2
1 is in [1, 2]
1 is not in [1, 2]
'abc' is lower
'ABC' is upper
'' is lower
1 is sameas 1
none is sameas none
s is sameas s
[] is sameas []
'upper' is filter
'nofilter' is filter
'odd' is test
range is callable
5 is callable
s is unknowntest
5|unknownfilter
s is defined and s|length > 3
(1 is odd) ~ 'x'
1 is odd is even
not s is string
-1|abs
(-1)|abs
1 + 2|string
'a' 'b' "c"
'\x41\u00e9\U0001F600\n\t\\\'\q\101'
"a\
b"
dict(a=1, b=2)
dict({'a': 1}, b=2)
dict([('a', 1)])
dict([1])
namespace(a=1).a
namespace(a=1).zz
namespace({'a': 1})['a']
cycler('a', 'b').next()
cycler()
joiner('|')()
strftime_now('%Y-%m-%d %H:%M:%S')
strftime_now('%d %b %Y, %A %B %j %p %I %y %%')
strftime_now('%-d/%-m %e')
raise_exception('boom ' ~ 5)
raise_exception('')
raise_exception()
range(3)|join(',')
[1,2,]
{'a': 1,}
f(1, 2)
(l)[0]
[l][0][1]
{'a': {'b': [1, 2]}}.a.b[1]
'a'.upper().lower().title()
l|map('string')|join('+')|upper
ms[0].role ~ ms[-1]['content']
ms[1:]|length
(1, 2, 3)|last
'é' in u
'%s' % u
u.split('，')
'٣'.isdigit()
'İ'|lower|length
1.0|string
100000000000000000000 * 3
1 if 1
self
loop
"nul\x00byte"|length
''|first
'x' * 3 ~ 'y'
2 * 3 + 4 % 3 - 1
2 + 3 * 4 ** 2
10 - 2 - 3
2 ~ 3 * 2
'a' ~ 'b' * 2
1 + 2 ~ 3
not true == false
1 < 2 == true
[1, [2, [3]]]|string
(none, true, 1.0, 'x')
[[]] + [{}]
{'k': ('v',)}
""".strip("\n").split("\n")

# Whole templates: statements, white space, scopes.
TEMPLATES = [
    "plain text\n", "plain\n\n", "a\r\nb\rc", "", "\n", "  {{ i }}  \n  x", "{{ i }}\n{{ i }}",
    "a {%- if t %} b {%- endif %} c", "a {%- if t -%} b {%- endif -%} c", "a\n{% if t %}\nb\n{% endif %}\nc",
    "a\n  {% if t %}\n  b\n  {% endif %}\nc", "a\n  {%+ if t %}\n  b\n  {%+ endif %}\nc",
    "a\n{% if t +%}\nb\n{% endif +%}\nc", "  {% if t %}x{% endif %}", "\t {# c #}\nx", "a {# c #}\nb",
    "a {#- c -#}\n b", "a {#- c +#}\n b", "x\n  {# c #}  \ny", "{# multi\nline #}z", "a\n   {{- i -}}\n  b",
    "a\n   {{ i }}\n  b", "x {%- set a = 1 -%} y", "{% raw %}{{ x }} {% if %}{% endraw %}",
    "{%- raw -%}  {{ x }}  {%- endraw -%} z", "a\n {% raw %}\n b {{\n {% endraw %}\nc", "{% raw %}x", "{# open",
    "{{ i", "{% if t %}", "{% endif %}", "{% if t %}a{% else %}b{% endif %}", "{{ }}", "{{ 'a }}", "{% %}",
    "{% unknown %}", "{{ 1 + }}", "{{ (1 }}", "{{ [1 }}", "{{ 1) }}", "{{ a b }}", "{{ $ }}", "{{ '}}' }}",
    "{{ {'a': {'b': 1}}}}", "{{ {'a': 1} }}", "{% set x = '%}' %}{{ x }}", "{{ '{{' }}", "{ {% if t %}{{% endif %}",
    "{% if f %}a{% elif n %}b{% elif t %}c{% else %}d{% endif %}", "{% if missing %}a{% else %}b{% endif %}",
    "{% if l and (s or f) and not n %}y{% endif %}", "{% if 1, 2 %}tuple{% endif %}",
    "{% for a in l %}{{ a }},{% endfor %}", "{% for a in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}"
    "{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
    "{% for a in l %}{{ loop.previtem }}<{{ a }}>{{ loop.nextitem }} {% endfor %}",
    "{% for a in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}",
    "{% for a in l %}{{ loop.cycle('x', 'y') }}{% endfor %}", "{% for a in [1,1,2,2,1] %}{{ loop.changed(a) }} {% endfor %}",
    "{% for a in l %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}", "{% for a in empty %}x{% else %}none{% endfor %}",
    "{% for a in missing %}x{% else %}none{% endfor %}", "{% for a in n %}x{% endfor %}", "{% for a in 5 %}x{% endfor %}",
    "{% for c in u %}[{{ c }}]{% endfor %}", "{% for k in d %}{{ k }} {% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}", "{% for a, b in [[1, 2], [3, 4]] %}{{ a + b }} {% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}x{% endfor %}", "{% for a, b in [[1]] %}x{% endfor %}",
    "{% for (a, b), c in [[[1, 2], 3]] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, in [[1]] %}{{ a }}{% endfor %}",
    "{% for a in l if a > 1 %}{{ loop.index }}:{{ a }} {% endfor %}", "{% for a in l if a > 9 %}x{% else %}none{% endfor %}",
    "{% for a in l if loop.index > 1 %}x{% endfor %}", "{% for m in ms if m.role == 'user' %}{{ m.content }}{{ loop.last }}{% endfor %}",
    "{% for a in l %}{% if a == 1 %}{% continue %}{% endif %}{{ a }}{% endfor %}",
    "{% for a in l %}{% if a == 1 %}{% break %}{% endif %}{{ a }}{% endfor %}",
    "{% for a in l %}{% for b in l %}{% if b == 1 %}{% break %}{% endif %}{{ a }}{{ b }} {% endfor %}{% endfor %}",
    "{% for a in l %}{% break %}{% else %}none{% endfor %}", "{% for a in l %}{% continue %}{% else %}none{% endfor %}",
    "{% for a in l %}{% if a == 3 %}{% continue %}{% endif %}{% else %}none{% endfor %}|", "{% set a, = [1] %}", "{% break %}",
    "{% for a in [1, [2, [3]]] recursive %}{{ loop(a) if a is sequence else a }}@{{ loop.depth }} {% endfor %}",
    "{% for a in nested recursive %}({{ loop(a) if a is iterable else a }}){% endfor %}",
    "{% for a in l %}{{ loop(a) }}{% endfor %}", "{% for a in l %}{% set q = a %}{% endfor %}{{ q }}",
    "{% set q = 0 %}{% for a in l %}{{ q }}{% set q = a %}{{ q }} {% endfor %}{{ q }}",
    "{% set ns = namespace(c=0) %}{% for a in l %}{% set ns.c = ns.c + a %}{% endfor %}{{ ns.c }}",
    "{% set ns = namespace() %}{% set ns.a = 1 %}{% set ns.b = ns %}{{ ns.b.b.a }}", "{% set d.x = 1 %}", "{% set zz.x = 1 %}",
    "{% set ns = namespace(a=1) %}{% set ns.a, b = 2, 3 %}{{ ns.a }}{{ b }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a = 1, 2 %}{{ a }}", "{% set a, b = 'xy' %}{{ b }}{{ a }}", "{% set (a, b) = l[:2] %}{{ a }}{{ b }}",
    "{% set a, b = 1 %}", "{% set none = 1 %}", "{% set x %}block {{ i }}{% endset %}[{{ x }}]",
    "{% set x | upper | replace('B', '_') %}block{% endset %}[{{ x }}]", "{% set x %}{% set y = 1 %}{% endset %}{{ y is defined }}",
    "{% if t %}{% set y = 1 %}{% endif %}{{ y }}", "{% with a = 1, b = i %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% set a = 9 %}{{ a }}{% endwith %}{{ a }}",
    "{% with %}{% set a = 2 %}{{ a }}{% endwith %}{{ a is defined }}",
    "{% macro m(a, b=2) %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=4, a=5) }}{{ m() }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(zz=2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}", "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}",
    "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(1) }}", "{% macro m(a=1, b) %}{% endmacro %}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}",
    "{% macro m() %}{{ i }}{{ z }}{% endmacro %}{% set z = 3 %}{{ m() }}", "{{ m() }}{% macro m() %}x{% endmacro %}",
    "{% macro m(x) %}{% set z = x %}{{ z }}{% endmacro %}{{ m(1) }}{{ z is defined }}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %} {{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "{% for a in l %}{% macro m() %}{{ a }}{% endmacro %}{{ m() }}{% endfor %}{{ m is defined }}",
    "{% macro m() %}  x  {% endmacro %}[{{ m()|trim }}]", "{% macro m() -%} x {%- endmacro %}[{{ m() }}]",
    "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}in {{ i }}{% endcall %}",
    "{% macro m() %}{% for a in l %}{{ caller(a) }}{% endfor %}{% endmacro %}{% call(x) m() %}[{{ x }}]{% endcall %}",
    "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}", "{% call 5 %}{% endcall %}",
    "{% macro m(a) %}{{ a(3) }}{% endmacro %}{% macro g(x) %}<{{ x }}>{% endmacro %}{{ m(g) }}",
    "{% macro m() %}1{% endmacro %}{{ m() + '2' }}{{ m()|int + 2 }}", "{% macro m() %}{% endmacro %}{{ m.name }}",
    "{% macro m(a, b) %}{{ a }}-{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'b': 4}) }}{{ m(1, *[2]) }}",
    "{% macro outer() %}{% macro inner() %}in{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}{{ inner is defined }}",
    "{% filter upper %}abc {{ s }}{% endfilter %}", "{% filter replace('a', 'b')|upper %}a{% set q = 1 %}{% endfilter %}{{ q is defined }}",
    "{% generation %}gen {{ i }}{% endgeneration %}\nx", "{% for m in ms %}{% generation %}{{ m.role }}{% endgeneration %}{% endfor %}",
    "{% generation %}{% set q = 1 %}{% endgeneration %}{{ q is defined }}",
    "{% include 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% extends 'x' %}",
    "{% print 1, 2 %}", "{% do l.append(1) %}", "{{ raise_exception('no ' ~ s) }}",
    "{% for m in ms %}{% if m.role == 'assistant' %}{{ raise_exception('bad role: ' + m.role) }}{% endif %}{% endfor %}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }}",
    "{% set j = joiner(', ') %}{% for a in l %}{{ j() }}{{ a }}{% endfor %}", "{% set j = joiner() %}{{ j() }}x{{ j() }}y",
    "{% set g = ls|map('upper') %}{{ g|list }}{{ g|list }}", "{% set g = ls|select %}{% for a in g %}{{ a }}{% break %}{% endfor %}{{ g|list }}",
    "{% for a in ls|map('upper') %}{{ loop.length }}{{ loop.last }}{{ a }} {% endfor %}",
    "{% for a in l|reverse %}{{ a }}{% endfor %}", "{% for a in range(3) %}{{ a }}{% endfor %}", "{% for a in d.values() %}{{ a }};{% endfor %}",
    "{% for b in l|batch(2) %}{{ b|join('+') }};{% endfor %}", "{% for a, b in ms|groupby('role') %}{{ a }}:{{ b|length }} {% endfor %}",
    "{%- for m in ms -%}\n    {{- '<|' + m['role'] + '|>\\n' + m['content'] | trim + '\\n' -}}\n{%- endfor -%}\n{%- if t -%}\n    {{- '<|end|>' -}}\n{%- endif -%}\n",
    "{% for m in ms %}{% if loop.first and m.role != 'system' %}\nSYS\n{% endif %}\n{{ m.role }}: {{ m.content }}\n{% endfor %}\n",
    "{% set loop_messages = ms[1:] if ms[0]['role'] == 'user' else ms %}{{ loop_messages|length }}",
    "{% set x = namespace(found=false) %}{% for m in ms %}{% if m.n == 1 %}{% set x.found = true %}{% endif %}{% endfor %}{{ x.found }}",
    "{% set tools = n %}{% if not tools is defined %}a{% elif tools is none %}b{% endif %}",
    "{% set x = 1 %}{{ x }}{% set x = x + 1 %}{{ x }}", "{%set x=1%}{{x}}", "{%if t%}a{%endif%}", "{{i}}{{- i}}",
    "{% if t %}\n\n\nx\n{% endif %}\n\n", "a{% if t %}   \nb{% endif %}", "{% if t %}  {% endif %}|", "x{{ '\n' }}y\n",
    "line1\n\n  {%- if t %}\nline2{% endif %}", "{{ ns }}{{ namespace is defined }}", "{{ l.pop() }}", "{{ d.setdefault('a', 1) }}",
    "{{ s.format }}", "{{ '{0.__class__}'.format(1) }}", "{{ ''.__class__.__mro__ }}", "{{ l['append'] is defined }}{{ l['append'](1) }}",
    "{% set x = l %}{% set y = x + [4] %}{{ x }}{{ y }}", "{% set a = b = 1 %}", "{% for x in %}{% endfor %}", "{% for in l %}{% endfor %}",
    "{% if %}{% endif %}", "{% set = 1 %}", "{{ 1 if }}", "{{ x. }}", "{{ x| }}", "{{ x is }}", "{{ f(a=) }}", "{{ f(a=1, 2) }}", "{{ {1} }}", "{{ l[] }}",
    "{{ [1,,2] }}", "{% else %}", "{% endfor %}", "{% for a in l %}{% endif %}", "{% macro %}{% endmacro %}", "{{ 'a' if t else }}", "{{ not }}",
    "{{ '\\u12' }}", "{% if t %}a{% else %}b{% else %}c{% endif %}", "{{ a.b.c }}", "{{ 'x' 5 }}", "{{ é }}{% set é = 1 %}{{ é }}",
    "{% for m in ms %}{% for k, v in m.items() %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for m in ms %}{% set outer = loop %}{% for k in [1, 2] %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for a in l %}{% set ns = namespace(l=loop) %}{{ ns.l.index }}{% endfor %}",
    "{% macro m() %}{{ loop is defined }}{% endmacro %}{% for a in l %}{{ m() }}{% endfor %}",
    "{% for a in l %}{% macro m() %}{{ loop.index }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% for a in l %}{{ a }}{% else %}{{ a }}{% endfor %}{{ a is defined }}",
    "{% set a = 1 %}{% for a in [2] %}{{ a }}{% endfor %}{{ a }}", "{% for i in [1] %}{{ i }}{% endfor %}{{ i }}",
    "{% if missing is defined and missing.x %}a{% else %}b{% endif %}", "{{ (missing or {}).get('a', 'dflt') }}",
    "{{ d.a.b is defined }}", "{{ d.a.b.c is defined }}", "{% set content = ms[0].content if ms[0].content is string else '' %}{{ content }}",
]

# Templates with variables of their own.
WITH_VARIABLES = [
    ("{{ n[:2] }}", {"n": None}), ("{{ n[0][:1] }}", {"n": "ab"}), ("{{ '{a.b}|{a.c}|'.format(a=a) }}", {"a": {"b": 1}}),
    ("{{ '{a.c.d}'.format(a=a) }}", {"a": {"b": 1}}), ("{{ '{a.c:5}'.format(a=a) }}", {"a": {"b": 1}}),
    ("{{ a }}", {"a": 1e22}), ("{{ a|tojson }}", {"a": {"x": 18446744073709551615, "y": -9223372036854775808}}),
    ("{{ range }}", {"range": "shadowed"}), ("{{ namespace }}", {"namespace": 1}), ("{{ a.get }}", {"a": [1]}),
    ("{{ a.b }}", {"a": {"b": None}}), ("{{ a.keys }}|{{ a.x.keys }}", {"a": {"x": {"keyss": 1}}}),
    ("{{ a.count }}", {"a": {"count": 3}}), ("{{ a.index }}{{ a.split }}", {"a": {"index": 3, "split": 4}}),
    ("{{ loop }}", {"loop": "given"}), ("{% for a in [1] %}{{ loop.index }}{% endfor %}{{ loop }}", {"loop": "given"}),
    ("{{ a is mapping }}{{ a is iterable }}{{ a is sequence }}", {"a": {}}), ("{{ a }}", {"a": "{{ b }} {% raw %}"}),
    ("{{ a == b }}", {"a": {"x": [1, 2]}, "b": {"x": [1, 2.0]}}), ("{{ a|length }}", {"a": "e\u0301"}),
    ("{{ a|trim }}|", {"a": "\u00a0\u3000x\u2003\u200b"}), ("{{ a.strip() }}|", {"a": "\x1c\x85x\ufeff"}),
    ("{{ a.split() }}", {"a": "a\u3000b\u00a0c\u200bd"}), ("{{ a.splitlines() }}", {"a": "a\u2028b\x0bc\x85d"}),
    ("{{ a }}", {"a": ["\u00ad", "\u202e", "\ue000", "\U000e0001"]}), ("{{ [a] }}", {"a": "'\"'"}),
    ("{{ a|upper }}{{ a|lower }}", {"a": "ñÑ ĀāŁł ΣσςΩ ЯяЁё ԱաԵե"}), ("{{ a.title() }}", {"a": "ñandú écoLE über-Alles o'neil"}),
]


def run(env, source, variables):
    # None of the variables reads another's state, so they may be shared between cases.
    try:
        return {"text": env.from_string(source).render(**variables)}
    except Raised as error:
        return {"error": "raise_exception", "message": str(error)}
    except Exception as error:  # noqa: BLE001: the class is what is recorded
        return {"error": type(error).__name__}


def main():
    env = environment()
    cases = [("{{ " + e + " }}", None) for e in EXPRESSIONS] + [(t, None) for t in TEMPLATES]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jinja_cases.jsonl")
    with open(path, "w", encoding="ascii") as out:
        head = {"jinja2": jinja2.__version__, "now": "2026-01-15T12:34:56Z", "variables": V}
        out.write(json.dumps(head) + "\n")
        for source, variables in cases + WITH_VARIABLES:
            line = {"template": source}
            if variables is not None:
                line["variables"] = variables
            line.update(run(env, source, V if variables is None else variables))
            if " at 0x" in line.get("text", ""):
                continue  # An address in memory; there is nothing to compare.
            out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
