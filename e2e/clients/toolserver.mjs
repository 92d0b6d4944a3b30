// Responses whose tools the server runs through an MCP server, by npm openai, against the server at TROUPE_URL (started
// with --tool-server of a server "almanac", --enable-per-turn-metrics and --enable-response-store).
import assert from 'node:assert/strict';
import test from 'node:test';
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: `${process.env.TROUPE_URL}/v1`, apiKey: 'unused', maxRetries: 0 });
const tools = [{ type: 'mcp', server_label: 'almanac', allowed_tools: ['get_weather'], require_approval: 'never' }];
const ask = (input) => ({ model: 'understudy', temperature: 0, max_output_tokens: 200, tools, input });
const kinds = (r) => r.output.map((item) => item.type);
const twoTurns = ['mcp_list_tools', 'mcp_call', 'message'];

const check = (r) => {
  assert.equal(r.status, 'completed');
  assert.deepEqual(kinds(r), twoTurns);
  assert.match(r.output_text, /21/);
  assert.deepEqual(JSON.parse(r.output[1].arguments), { city: 'Lisbon' });
  assert.equal(JSON.parse(r.output[1].output).temperature, 21);
  assert.equal('metrics' in r, false);
  assert.equal(r.metrics_per_turn.length, 2);
  assert.equal(typeof r.metrics_per_turn[0].metrics.time_to_first_token_ms, 'number');
  assert.equal(typeof r.metrics_per_turn[0].tool_time_ms, 'number');
  assert.equal(r.metrics_per_turn[0].output_tokens + r.metrics_per_turn[1].output_tokens, r.usage.output_tokens);
};

test('responses.create goes through both turns', async () => {
  const r = await client.responses.create(ask('What is the weather in Lisbon?'));
  check(r);
  const next = await client.responses.create({ ...ask('What is the weather in Rome?'), tool_choice: 'required', previous_response_id: r.id });
  assert.deepEqual(kinds(next), twoTurns);
  const conversation = [{ role: 'user', content: 'What is the weather in Lisbon?' }, ...r.output, { role: 'user', content: 'What is the weather in Rome?' }];
  const items = await client.responses.create({ ...ask(conversation), tool_choice: { type: 'mcp', server_label: 'almanac', name: 'get_weather' } });
  assert.deepEqual(kinds(items), twoTurns);
});

test('responses.stream sees every event, numbered', async () => {
  const seen = {};
  let next = 0, pieces = '';
  const stream = client.responses.stream(ask('What is the weather in Lisbon?'));
  for await (const event of stream) {
    assert.equal(event.sequence_number, next++);
    seen[event.type] = (seen[event.type] ?? 0) + 1;
    if (event.type === 'response.mcp_call_arguments.delta') pieces += event.delta;
    if (event.type === 'response.mcp_call_arguments.done') assert.equal(event.arguments, pieces);
  }
  const r = await stream.finalResponse();
  check(r);
  for (const type of ['created', 'in_progress', 'mcp_list_tools.completed', 'mcp_call.in_progress', 'mcp_call_arguments.done', 'mcp_call.completed', 'completed']) {
    assert.equal(seen[`response.${type}`], 1, type);
  }
});

test('tools of the server and of the client side by side', async () => {
  const mine = { type: 'function', name: 'get_news', description: 'News', parameters: { type: 'object', properties: {} }, strict: false };
  const r = await client.responses.create({ ...ask('What is the weather in Lisbon?'), tools: [...tools, mine] });
  assert.equal(r.output[1].type, 'mcp_call');
  await assert.rejects(client.responses.create({ ...ask('Hi'), tools: [{ type: 'mcp', server_label: 'x', server_url: 'http://localhost/' }] }), { status: 400, param: 'tools[0].server_url' });
});
