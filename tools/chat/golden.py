#!/usr/bin/env python3
"""Write the golden renders of chat/jinja.

Each case is a template and its variables, rendered by Python's Jinja2 set up as
Hugging Face transformers sets it up (transformers/utils/chat_template_utils.py).
The templates and the data were written for this project.

    apt-get install python3-jinja2        # made with 3.1.2
    tools/chat/golden.py > chat/jinja/testdata/golden.json
"""
import datetime
import json
import sys

import jinja2
import jinja2.ext
import jinja2.nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_body")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


DATA = {
    "n": 7, "f": 2.5, "neg": -3, "t": True, "no": None, "big": 12345678901234567890123,
    "s": "Hello, World", "u": "naïve ☃ 𝒳 \"q\" 'a' <b> & \\ \t\n\u0001\u2028", "blank": "  \n x y \t\n ",
    "empty": "", "list": [3, 1, 2], "words": ["b", "A", "c", "a"], "nested": [[1, 2], [3, [4, 5]]],
    "tree": [{"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4, "kids": []}]}]}],
    "d": {"z": 1, "a": [True, None, 1.0, 1e20, 1e-7, "x"], "items": "shadow", "k w": {"deep": {}}},
    "people": [
        {"name": "Zoe", "age": 30, "city": {"name": "Oslo"}},
        {"name": "adam", "age": 4, "city": {"name": "Bonn"}},
        {"name": "Bob", "age": 30},
    ],
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi {{ not a tag }} {% nor this %}"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"zeta": 1, "alpha": "ü<"}}}]},
        {"role": "tool", "content": "42", "tool_call_id": "c1"},
    ],
    "tools": [{"type": "function", "function": {
        "name": "get", "description": "it's <b>\"x\"</b>", "parameters": {
            "type": "object", "properties": {"b": {"type": "string", "enum": ["ß", "é"]}, "a": {"type": "number"}},
            "required": ["b"]}}}],
}

# Every line is one template, unless it is in BLOCKS.
LINES = r"""
{{ n }} {{ f }} {{ neg }} {{ t }} {{ no }} {{ big }} {{ s }} {{ missing }}|
{{ 7 // -2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7.5 % -2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1.0 }}
{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1e3 }} {{ 1.5e-3 }} {{ true }} {{ True }} {{ none }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }}
{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ 'a' ~ 1 ~ none ~ true ~ 1.5 }} {{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ [1] * 3 }} {{ 'x' * -1 }}|
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ 1 == true }} {{ '1' == 1 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ none == none }} {{ missing == none }}
{{ 1 in list }} {{ 9 not in list }} {{ 'ell' in s }} {{ 'z' in d }} {{ 'q' in d }} {{ not 1 in list }} {{ 1 in [1.0] }}
{{ t and 5 }} {{ empty or 'dflt' }} {{ not t }} {{ 'a' if t else 'b' }} {{ 'a' if empty }}| {{ 1 if 0 else 2 if 0 else 3 }}
{{ list }} {{ d }} {{ (1, 2) }} {{ (1,) }} {{ () }} {{ nested }} {{ [none, true, 'a\'b', "c\"d", 'e\nf'] }}
{{ [u] }}
{{ u }}
{{ list[0] }} {{ list[-1] }} {{ list[9] }}| {{ list[1:] }} {{ list[:-1] }} {{ list[::-1] }} {{ list[::2] }} {{ list[5:] }} {{ list[-2:] }} {{ list[2:0:-1] }}
{{ s[0] }} {{ s[-1] }} {{ s[1:4] }} {{ s[::-1] }} {{ s[::3] }} {{ u[2] }} {{ u[:7] }} {{ u[8:9] }} {{ s[99] }}| {{ s[-99:3] }}
{{ d.z }} {{ d['z'] }} {{ d.a[1] }} {{ d['items'] }} {{ d.get('z') }} {{ d.get('q') }} {{ d.get('q', 5) }} {{ d['k w'].deep }} {{ d.nope }}|
{{ d.keys() | list }} {{ d.values() | list }} {{ d.items() | list }} {{ d | items | list }} {{ d | length }}
{{ {'a': 1, 'b': {'c': [1, 2]}}['b']['c'][1] }} {{ {1: 'one', none: 'n'}[1] }} {{ {'a': 1}.a }} {{ {} }} {{ {'x': {'y': {}}} }}
{{ 'a' 'b' "c" }} {{ "tab\there" }} {{ '\x41\u00e9\101' }} {{ 'back\\slash' }} {{ 'un\known' }} {{ '\U0001F600' }}
{{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ s.capitalize() }} {{ s.swapcase() }} {{ 'straße'.upper() }} {{ "they're".title() }}
{{ blank.strip() }}|{{ blank.lstrip() }}|{{ blank.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'abc'.lstrip('ab') }}|{{ 'abc'.rstrip('bc') }}|{{ '\u00a0\u3000a\u2003'.strip() }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a b c'.split(none, 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b  c '.rsplit(none, 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a\nb\r\nc\n'.splitlines() }} {{ 'a\nb'.splitlines(true) }}
{{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.partition('x') }} {{ 'abc'.rpartition('x') }}
{{ s.startswith('Hell') }} {{ s.endswith(('x', 'ld')) }} {{ s.find('World') }} {{ s.find('zzz') }} {{ u.find('☃') }} {{ s.rfind('o') }} {{ s.count('l') }} {{ s.index('W') }} {{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ 'abc'.replace('', '-') }} {{ 'abc'.replace('', '-', 2) }}
{{ ', '.join(words) }} {{ '{} {}'.format(1, 'b') }} {{ '{1}{0}{x}{{}}'.format(1, 2, x=3) }} {{ '%s is %d %5.2f%%' % ('a', 3, 2.5) }} {{ '%s' % 'x' }} {{ '%(a)s' % {'a': 1} }} {{ '%05d|%-5s|%5s|%x' % (42, 'a', 'b', 255) }} {{ '%r' | format('a') }}
{{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'ab'.isalpha() }} {{ ' '.isspace() }} {{ 'AB'.isupper() }} {{ 'ab'.islower() }} {{ ''.isdigit() }} {{ '7'.zfill(3) }} {{ '-7'.zfill(4) }} {{ 'a'.ljust(3) }}|{{ 'a'.rjust(3, '.') }} {{ 'a'.center(4, '*') }} {{ 'ab'.center(5, '*') }}
{{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.py'.removesuffix('.py') }}
{{ s | upper }} {{ s | lower }} {{ 'hello wOrld-foo (bar' | title }} {{ 'hELLO' | capitalize }} {{ blank | trim }}| {{ 'xax' | trim('x') }} {{ s | length }} {{ u | length }} {{ s | replace('o', '0') }} {{ s | replace('l', 'L', 1) }} {{ s | first }} {{ s | last }} {{ s | reverse }} {{ 'a b_c, d' | wordcount }}
{{ missing | default('d') }} {{ empty | default('d') }}| {{ empty | default('d', true) }} {{ no | default('d') }} {{ missing | d }}| {{ (missing.x is defined) if false else 'guarded' }}
{{ list | sort }} {{ words | sort }} {{ words | sort(case_sensitive=true) }} {{ list | sort(reverse=true) }} {{ people | sort(attribute='age,name') | map(attribute='name') | list }} {{ d | dictsort | map('first') | list }} {{ {'b': 1, 'A': 2} | dictsort(by='value', reverse=true) }}
{{ list | min }} {{ list | max }} {{ words | min }} {{ words | max }} {{ list | sum }} {{ people | sum(attribute='age') }} {{ people | sum('age', 100) }} {{ [] | max }}| {{ [1.5, 2] | sum }}
{{ people | map(attribute='name') | join(', ') }} {{ people | map(attribute='city.name', default='?') | list }} {{ people | map(attribute='city', default='?') | list }} {{ words | map('upper') | list }} {{ people | join('/', attribute='name') }} {{ [1, none, 'x'] | join('-') }} {{ list | map('string') | join }}
{{ people | selectattr('city') | map(attribute='name') | list }} {{ people | rejectattr('city', 'defined') | map(attribute='name') | list }} {{ people | selectattr('age', 'gt', 5) | list | length }} {{ people | selectattr('name', 'equalto', 'Bob') | first }} {{ list | select('odd') | list }} {{ list | reject('>', 1) | list }} {{ [0, 1, '', 'a'] | select | list }} {{ [0, 1] | reject | list }}
{{ [1, 2, 3, 4, 5] | batch(2) | list }} {{ [1, 2, 3] | batch(2, 0) | list }} {{ [1, 2, 3, 4, 5] | slice(3) | list }} {{ [1, 2, 3, 4] | slice(3, 'x') | list }} {{ ['a', 'A', 'b'] | unique | list }} {{ people | unique(attribute='age') | map(attribute='name') | list }}
{{ list | first }} {{ list | last }} {{ list | reverse | list }} {{ 'abc' | list }} {{ d | list }} {{ list | length }} {{ list | count }} {{ people | groupby('age') | map('first') | list }} {{ (people | groupby('age'))[1][1] | map(attribute='name') | list }}
{{ '42' | int }} {{ '4.9' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ 'ff' | int(0, 16) }} {{ 3.99 | int }} {{ '1.5' | float }} {{ 'x' | float }} {{ true | int }} {{ -5 | abs }} {{ 2.5 | round }} {{ 3.5 | round }} {{ 2.567 | round(2) }} {{ 2.1 | round(0, 'ceil') }} {{ 2.9 | round(method='floor') }} {{ 5 | string }} {{ 1.0 | string }}
{{ '<a href="x">&\'' | e }} {{ '<b>' | escape }} {{ '<b>' | safe }} {{ 'a\nb\n\nc' | indent }} {{ 'a\nb' | indent(2, true) }} {{ 'a\n\nb' | indent(1, blank=true) }} {{ 'a\nb' | indent('> ') }} {{ 'ab' | center(6) }}|
{{ 'The quick brown fox jumps' | truncate(12) }} {{ 'The quick brown fox jumps' | truncate(12, true) }} {{ 'short' | truncate(4) }} {{ 'The quick brown' | truncate(9, false, '…', 0) }}
{{ d | tojson }} {{ u | tojson }} {{ [1.0, 1e20, 1e-7, none, true] | tojson }} {{ big | tojson }} {{ 'é☃𝒳\u007f' | tojson(ensure_ascii=true) }}
{{ d | tojson(indent=2) }}
{{ tools | tojson(indent=4) }}
{{ [[], {}, [[]]] | tojson(indent=1) }} {{ [1, [2]] | tojson(indent='--') }} {{ [1, [2]] | tojson(indent=0) }}
{{ d | tojson(separators=(',', ':')) }} {{ {'b': 1, 'a': {'d': 2, 'c': 3}} | tojson(sort_keys=true) }} {{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }}
{{ d | tojson | length }} {{ tools[0] | tojson }} {{ messages[2].tool_calls[0].function.arguments | tojson }}
{{ n is defined }} {{ missing is defined }} {{ missing is undefined }} {{ no is none }} {{ n is number }} {{ t is number }} {{ t is boolean }} {{ n is integer }} {{ f is float }} {{ t is integer }} {{ s is string }} {{ d is mapping }} {{ list is mapping }} {{ list is sequence }} {{ s is sequence }} {{ d is sequence }} {{ s is iterable }} {{ n is iterable }} {{ n is not string }} {{ n is odd }} {{ n is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }}
{{ t is true }} {{ n is true }} {{ false is false }} {{ 'ab' is lower }} {{ 'AB' is upper }} {{ n is eq 7 }} {{ n is gt(3) }} {{ n is in [7, 8] }} {{ n is sameas n }} {{ range is callable }} {{ s is callable }} {{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ no is sameas none }}
{{ range(3) | list }} {{ range(1, 7, 2) | list }} {{ range(3, 0, -1) | list }} {{ range(0) | list }} {{ dict(a=1, b=2) }} {{ dict({'x': 1}, y=2) }}
{{ strftime_now('%Y-%m-%d %H:%M:%S %d %b %B %A %a %j %p %I %y %% %-d %e %f') }}|{{ strftime_now('%Z%z') }}|
{% set j = joiner(', ') %}{{ j() }}a{{ j() }}b{{ j() }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }}
{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('x', 'y') }}{{ loop.depth }};{% endfor %}
{% for x in [] %}a{% else %}none{% endfor %} {% for x in missing %}a{% else %}undef{% endfor %} {% for x in [1, 1, 2] %}{{ loop.changed(x) }}{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {% for k in d %}{{ k }},{% endfor %} {% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for x, in [(1,)] %}{{ x }}{% endfor %}
{% for c in 'aé' %}[{{ c }}]{% endfor %}
{% for x in range(6) if x is odd %}{{ x }}/{{ loop.length }} {% endfor %} {% for x in range(9) %}{% if x == 2 %}{% continue %}{% elif x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %} {% for m in messages if m.role != 'system' %}{{ m.role }}{{ loop.first }} {% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }} {% for i in [1, 2] %}{% if i == 1 %}{% set a = 'set' %}{% endif %}{{ a }};{% endfor %} {% if true %}{% set y = 5 %}{% endif %}{{ y }}
{% set ns = namespace(x=0, l=[]) %}{% for i in list %}{% set ns.x = ns.x + i %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.x }} {{ ns.l }} {{ ns.q }}|
{% set a, b = 1, 2 %}{{ a }}{{ b }} {% set c = 1, 2 %}{{ c }} {% set (p, q) = 'xy' %}{{ q }}{{ p }} {% set blk %}in {{ n }}{% endset %}{{ blk }} {% set blk2 | upper | replace('A', 'Z') %}abc{% endset %}{{ blk2 }}
{% macro m(a, b=2, c=a) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(a=5, c=6) }}{{ m() }} {{ m.name }}
{% macro v() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ v(1, 2, x=3) }} {% macro r(n) %}{{ n }}{% if n > 0 %}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(3) }} {{ m is defined }} {% macro late() %}{{ later }}{% endmacro %}{% set later = 'L' %}{{ late() }}
{% macro box(t) %}<{{ t }}:{{ caller('arg') }}>{% endmacro %}{% call(x) box('T') %}body {{ x }} {{ n }}{% endcall %} {% macro wrap() %}<{{ caller() }}>{% endmacro %}{% call wrap() %}plain{% endcall %}
{% macro w() %}{{ caller('arg') }}{% endmacro %}{% call w() %}plain{% endcall %}
{% for node in tree recursive %}{{ node.v }}{% if node.kids %}({{ loop(node.kids) }}){% endif %}@{{ loop.depth }}{% endfor %}
{% filter upper %}abc {{ s }}{% endfilter %} {% filter replace('a', 'b') | upper %}aaa{% endfilter %} {% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}| {% generation %}gen {{ n }}{% endgeneration %}
{% raw %}{{ not }} {% a %} {# b #}{% endraw %} {#- comment with {{ x }} -#} after {# a #}b{# c #}
{{ messages[0]['role'] }} {{ messages[-1].content }} {{ messages[1].content }} {{ messages | length }} {{ messages[1:] | map(attribute='role') | list }} {{ messages[0].content is string }} {{ messages[2].content is none }}
{{ s.nope is defined }} {{ [].append is defined }} {{ n.x }}| {{ list.0 }} {{ nested.1.1.0 }}
{{ '}}' }} {{ "%}" }} {{ {'a': {'b': 1}}}} {{ '{{' }} {{ "{#" }}
{{ 1if t else 2 }} {{ not not t }} {{ -n }} {{ +n }} {{ - 3 | abs }} {{ -n | abs }} {{ 2 * -3 }} {{ n is defined and n > 3 }} {{ (n) is odd }} {{ n | string ~ 'x' | upper }}
{{ 1 ~ 2 + 3 }}
{{ 2 + 3 ~ 4 }}
{{ 2 * 3 ~ 4 }}
{{ 'x' if missing else 'y' }} {{ missing ~ 'a' }} {{ missing | length }} {{ missing | list }} {{ missing | join }}| {{ missing | upper }}| {{ [missing] }}
{{ raise_exception('Roles must alternate: ' ~ n) }}
{{ missing.attr }}
{{ missing + 1 }}
{{ missing() }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ 1 / 0 }}
{{ none | length }}
{{ none.x.y }}
{{ 1 < 'a' }}
{{ for }}
{{ 1 in 5 }}
{{ 5 in 'abc' }}
{{ d | nofilter }}
{{ n is notest }}
{{ n() }}
{{ missing | tojson }}
{{ range(1000000) | length }}
{{ list.append(4) }}
{{ d.update({'q': 1}) }}
{{ none | items | list }}
{% set d.x = 1 %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% macro one(a) %}{% endmacro %}{{ one(1, 2) }}
{% macro one(a) %}{% endmacro %}{{ one(b=2) }}
{% for x in 5 %}{% endfor %}
{{ 'a' | int | upper | nope.x }}
{{ s.split('') }}
{{ s['nope'].x }}
{% if x %}
{% endif %}
{% for x in y %}{% endif %}
{% bogus %}
{{ (1 }}
{{ 1 2 }}
{{ 'open }}
{# open
{% raw %} open
{{ a b }}
{% break %}
{{ }}
{{ 1 ! 2 }}
{% set %}
{% set true = 1 %}
{% macro x(a=1, b) %}{% endmacro %}
{{ f(a=1, 2) }}
{{ x | }}
{{ x is }}
{% else %}
""".strip("\n").split("\n")

BLOCKS = [
    "A\n  {% if t %}\n    x\n  {% endif %}\nB\n",
    "A\n  {%- if t -%}\n    x\n  {%- endif -%}\nB\n\n",
    "  {%+ if t %}x{% endif +%}\n  {{ n }}\n  {{- n -}}  \n y",
    "a  {# c #}\n  {# c #}\nb {#- c -#} \n c",
    "{% for x in list %}\n\t{{ x }}\n{% endfor %}\n",
    "{% for x in list -%}\n\t{{ x }}\n{%- endfor %}\n",
    "  text {% if t %} inline {% endif %} tail\n   {% set a = 1 %}   \nnext",
    "{% raw %}\n  {{ x }}\n  {% endraw %}\nend",
    "{%- raw -%}\n  {{ x }}\n  {%- endraw -%}\n end",
    "line1\r\nline2\r{{ n }}\r\n",
    "x\n\n",
    "\n{{ n }}\n",
    "{{ n }}\n\n\n",
    "{% if t %}{% endif %}\n\n{% if t %}\n{% endif %}\nz",
    "{% set x %}\n  a\n{% endset %}\n[{{ x }}]",
    "{% macro m() %}\n  body\n{% endmacro %}\n[{{ m() }}]\n",
    "{{ n\n}}\n{{\n  s\n | upper\n}}",
    "\u00a0 {% if t %}x{% endif %}\u2003\n  {%- if t %}y{% endif %}",
    "{% if n == 7\n   and t %}\nok\n{% endif %}",
    # The shape of most chat templates.
    "{%- for m in messages %}\n"
    "    {%- if (m.role == 'user') != (loop.index0 % 2 == 1) and m.role == 'user' %}\n"
    "        {{- raise_exception('order') }}\n"
    "    {%- endif %}\n"
    "    {{- '<|im_start|>' + m['role'] + '\\n' }}\n"
    "    {%- if m.content is string %}{{ m.content | trim }}{% else %}\n"
    "    {%- for c in m.tool_calls or [] %}\n"
    "        {{- c.function.name ~ ' ' ~ (c.function.arguments | tojson) }}\n"
    "    {%- endfor %}{% endif %}\n"
    "    {{- '<|im_end|>\\n' }}\n"
    "{%- endfor %}\n",
    "{%- macro render(v, depth=0) -%}\n"
    "{%- if v is mapping -%}{{ '{' }}{%- for k, x in v.items() -%}{{ k }}:{{ render(x, depth + 1) }}{%- if not loop.last %},{% endif -%}{%- endfor -%}{{ '}' }}\n"
    "{%- elif v is string -%}{{ v }}@{{ depth }}\n"
    "{%- elif v is iterable -%}[{%- for x in v -%}{{ render(x, depth + 1) }} {% endfor -%}]\n"
    "{%- else -%}{{ v }}{%- endif -%}\n"
    "{%- endmacro -%}\n{{ render(tools) }} {{ render(d['a']) }}",
    "{%- set ns = namespace(found=false, last=-1) %}\n"
    "{%- for m in messages[::-1] %}\n"
    "    {%- set i = (messages | length - 1) - loop.index0 %}\n"
    "    {%- if not ns.found and m.role == 'user' %}{% set ns.found = true %}{% set ns.last = i %}{% endif %}\n"
    "{%- endfor %}\n{{ ns.last }} {{ ns.found }}",
]


def main():
    env = environment()
    cases = []
    for source in LINES + BLOCKS:
        case = {"template": source}
        try:
            case["output"] = env.from_string(source).render(**DATA)
        except jinja2.TemplateSyntaxError as e:
            case["syntax_error_line"] = e.lineno
        except Exception as e:  # noqa: BLE001: any failure is a result here
            case["error"] = f"{type(e).__name__}: {e}"
        cases.append(case)
    json.dump({"jinja2": jinja2.__version__, "data": DATA, "cases": cases}, sys.stdout, ensure_ascii=False, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
