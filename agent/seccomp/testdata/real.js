// A Node program that does what scanners written for Node do. It prints one
// line per piece of work, the same on every run.
const fs = require('fs'), net = require('net'), http = require('http'), os = require('os'), path = require('path');
const crypto = require('crypto'), zlib = require('zlib');
const { Worker, isMainThread, parentPort } = require('worker_threads');
const { spawn, execFileSync } = require('child_process');

if (!isMainThread) {
  let n = 0;
  for (let i = 0; i < 1e5; i++) n += i;
  parentPort.postMessage(n);
} else if (process.argv[2] === 'child') {
  console.log('child');
  process.exitCode = 7;
} else {
  main().catch((e) => { console.log('failed: ' + e.stack); process.exit(1); });
}

async function main() {
  process.stderr.write(fs.readFileSync('/proc/self/status', 'utf8').match(/^Seccomp:.*$/m)[0] + '\n');
  const sums = await Promise.all([1, 2, 3, 4].map(() => new Promise((done, fail) => {
    const w = new Worker(__filename);
    w.on('message', done); w.on('error', fail);
  })));
  console.log('workers summed', sums.join(' '));

  const dir = fs.mkdtempSync('realjs');
  await Promise.all(Array.from({ length: 50 }, (_, i) => fs.promises.writeFile(path.join(dir, `${i}`), 'x'.repeat(i))));
  const sizes = await Promise.all((await fs.promises.readdir(dir)).map(async (f) => (await fs.promises.stat(path.join(dir, f))).size));
  console.log('files', sizes.length, sizes.reduce((a, b) => a + b));
  fs.rmSync(dir, { recursive: true });

  const keys = await Promise.all([1, 2, 3, 4, 5, 6].map(() => new Promise((done, fail) =>
    crypto.pbkdf2('a', 'b', 1000, 16, 'sha256', (e, k) => e ? fail(e) : done(k.toString('hex'))))));
  console.log('thread pool', new Set(keys).size, keys[0]);
  console.log('zlib', zlib.gunzipSync(zlib.gzipSync(Buffer.alloc(100000))).length);

  const server = http.createServer((_, r) => r.end('hello'));
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const body = await new Promise((done, fail) => http.get({ port: server.address().port, host: '127.0.0.1' }, (r) => {
    let s = ''; r.on('data', (d) => s += d); r.on('end', () => done(s));
  }).on('error', fail));
  server.close();
  console.log('http said', body, Object.keys(os.networkInterfaces()).length >= 0);

  const child = spawn(process.execPath, [__filename, 'child']);
  let said = '';
  child.stdout.on('data', (d) => said += d);
  const code = await new Promise((done) => child.on('close', done));
  console.log('child said', said.trim(), code);
  console.log('sync', execFileSync(process.execPath, ['-e', 'console.log(6*7)']).toString().trim());
  const wasm = new WebAssembly.Module(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0));
  console.log('wasm', wasm instanceof WebAssembly.Module);
  console.log('done');
}
