// The common scenario with node-zookeeper-client; see tests/src/scenario.rs for what is said to
// whom.
'use strict';

const assert = require('assert');
const readline = require('readline');
const { promisify } = require('util');
const zookeeper = require('node-zookeeper-client');

const { ACL, CreateMode, Event, Exception, Id, Permission, State } = zookeeper;

const BASE = '/node';
// How long anything may take that is expected to happen, in milliseconds.
const PATIENCE = 30_000;

function say(line) {
    process.stdout.write(line + '\n');
}

const answers = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function ask(request) {
    say('ask ' + request);
    assert.strictEqual((await answers.next()).value, 'done', 'answer to ' + request);
}

function expect(what, got, wanted) {
    assert.deepStrictEqual(got, wanted, what + ': ' + got + ' instead of ' + wanted);
}

async function expectError(code, call) {
    let result;
    try {
        result = await call;
    } catch (error) {
        if (error.code === Exception[code]) {
            return;
        }
        throw error;
    }
    throw new Error(result + ' instead of ' + code);
}

function within(what, promise) {
    let timer;
    const late = new Promise((resolve, reject) => {
        timer = setTimeout(() => reject(new Error('no ' + what)), PATIENCE);
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// A client whose calls give promises; data comes with its stat.
class Client {
    constructor(address, sessionTimeout) {
        this.raw = zookeeper.createClient(address, { sessionTimeout });
        for (const name of ['create', 'remove', 'setData', 'getChildren', 'exists',
            'mkdirp', 'setACL']) {
            this[name] = promisify(this.raw[name]).bind(this.raw);
        }
        for (const name of ['getData', 'getACL']) {
            this[name] = (...args) => new Promise((resolve, reject) => {
                this.raw[name](...args, (error, value, stat) => {
                    if (error) {
                        reject(error);
                    } else {
                        resolve([Buffer.isBuffer(value) ? value.toString() : value, stat]);
                    }
                });
            });
        }
        this.getChildren2 = (path) => new Promise((resolve, reject) => {
            this.raw.getChildren(path, (error, names, stat) => {
                if (error) {
                    reject(error);
                } else {
                    resolve([names.sort(), stat]);
                }
            });
        });
    }

    async connect() {
        const connected = this.state(State.SYNC_CONNECTED);
        this.raw.connect();
        await connected;
        return this;
    }

    // The next time the connection comes to this state; losing the session is a failure.
    state(wanted) {
        return within('state ' + wanted.name, new Promise((resolve, reject) => {
            const look = (state) => {
                if (state === wanted || state === State.EXPIRED) {
                    this.raw.removeListener('state', look);
                }
                if (state === wanted) {
                    resolve();
                } else if (state === State.EXPIRED) {
                    reject(new Error('the session expired'));
                }
            };
            this.raw.on('state', look);
        }));
    }

    async close() {
        const closed = this.state(State.DISCONNECTED);
        this.raw.close();
        await closed;
    }

    session() {
        return this.raw.getSessionId().toString('hex');
    }
}

// A watcher that keeps its events.
class Watch {
    constructor() {
        this.events = [];
        this.waiting = null;
        this.watcher = (event) => {
            this.events.push(event.getName() + ' ' + event.getPath());
            if (this.waiting) {
                this.waiting();
            }
        };
    }

    async expect(type, path) {
        if (this.events.length === 0) {
            await within('event of ' + path, new Promise((resolve) => {
                this.waiting = resolve;
            }));
            this.waiting = null;
        }
        const name = Object.keys(Event).find((key) => Event[key] === type);
        expect('event', this.events.shift(), name + ' ' + path);
    }
}

async function createRead(zk) {
    const path = BASE + '/node';
    expect('created path', await zk.create(path, Buffer.from('first')), path);
    const [data, stat] = await zk.getData(path);
    expect('data', data, 'first');
    expect('version', stat.version, 0);
    expect('dataLength', stat.dataLength, 5);
    expect('czxid is mzxid', stat.czxid, stat.mzxid);
    expect('exists', await zk.exists(path), stat);
    expect('exists of nothing', await zk.exists(BASE + '/nothing'), null);
    await expectError('NO_NODE', zk.getData(BASE + '/nothing'));
    await expectError('NO_NODE', zk.create(BASE + '/nothing/below'));
    await expectError('NODE_EXISTS', zk.create(path));
    expect('mkdirp', await zk.mkdirp(BASE + '/a/b/c'), BASE + '/a/b/c');
    expect('null data', (await zk.getData(BASE + '/a/b/c'))[0], undefined);
    const large = '0123456789'.repeat(80_000);
    await zk.create(BASE + '/large', Buffer.from(large));
    expect('large data', (await zk.getData(BASE + '/large'))[0] === large, true);
}

async function versions(zk) {
    const path = BASE + '/node';
    const stat = await zk.setData(path, Buffer.from('second'), 0);
    expect('version', stat.version, 1);
    await expectError('BAD_VERSION', zk.setData(path, Buffer.from('third'), 0));
    expect('data', (await zk.getData(path))[0], 'second');
    expect('any version', (await zk.setData(path, Buffer.from('third'))).version, 2);
    await expectError('BAD_VERSION', zk.remove(path, 1));
    await zk.remove(path, 2);
    expect('deleted', await zk.exists(path), null);
    await expectError('NO_NODE', zk.remove(path));
}

async function children(zk) {
    const path = BASE + '/parent';
    await zk.create(path);
    for (const name of ['b', 'a', 'c']) {
        await zk.create(path + '/' + name);
    }
    const [names, stat] = await zk.getChildren2(path);
    expect('children', names, ['a', 'b', 'c']);
    expect('numChildren', stat.numChildren, 3);
    expect('cversion', stat.cversion, 3);
    await expectError('NOT_EMPTY', zk.remove(path));
    await zk.remove(path + '/b');
    expect('children left', (await zk.getChildren2(path))[0], ['a', 'c']);
    expect('no children', (await zk.getChildren2(path + '/a'))[0], []);
}

async function sequence(zk) {
    const path = BASE + '/queue';
    await zk.create(path);
    for (let number = 0; number < 3; number += 1) {
        const made = await zk.create(path + '/item-', CreateMode.PERSISTENT_SEQUENTIAL);
        expect('sequence node', made, path + '/item-' + String(number).padStart(10, '0'));
    }
    await zk.remove(path + '/item-0000000002');
    const made = await zk.create(path + '/last-', CreateMode.EPHEMERAL_SEQUENTIAL);
    expect('number not used again', made, path + '/last-0000000003');
    await zk.remove(made);
}

async function ephemeralClosed(zk, address) {
    const path = BASE + '/ephemeral';
    const other = await new Client(address, 10_000).connect();
    await other.create(path, CreateMode.EPHEMERAL);
    await expectError('NO_CHILDREN_FOR_EPHEMERALS', other.create(path + '/child'));
    const watch = new Watch();
    const stat = await zk.exists(path, watch.watcher);
    expect('owner', stat.ephemeralOwner.toString('hex'), other.session());
    await other.close();
    await watch.expect(Event.NODE_DELETED, path);
    expect('node of a closed session', await zk.exists(path), null);
}

async function ephemeralExpired(zk) {
    const path = BASE + '/held';
    await ask('hold ' + path);
    const watch = new Watch();
    const owner = (await zk.exists(path, watch.watcher)).ephemeralOwner.toString('hex');
    expect("another's", owner !== '0000000000000000' && owner !== zk.session(), true);
    await ask('kill-holder');
    await watch.expect(Event.NODE_DELETED, path);
    expect('node of an expired session', await zk.exists(path), null);
}

async function watches(zk) {
    const path = BASE + '/watched';
    const watch = new Watch();
    expect('not there yet', await zk.exists(path, watch.watcher), null);
    await zk.create(path, Buffer.from('0'));
    await watch.expect(Event.NODE_CREATED, path);
    await zk.setData(path, Buffer.from('1'));
    await zk.exists(path);
    expect('fired once', watch.events, []);
    for (const value of ['2', '3']) {
        await zk.getData(path, watch.watcher);
        await zk.setData(path, Buffer.from(value));
        await watch.expect(Event.NODE_DATA_CHANGED, path);
    }
    for (const name of ['/one', '/two']) {
        await zk.getChildren(path, watch.watcher);
        await zk.create(path + name);
        await watch.expect(Event.NODE_CHILDREN_CHANGED, path);
    }
    await zk.remove(path + '/one');
    await zk.remove(path + '/two');
    await zk.exists(path);
    expect('fired once', watch.events, []);
    await zk.getData(path, watch.watcher);
    await zk.remove(path);
    await watch.expect(Event.NODE_DELETED, path);
}

function commit(transaction) {
    return new Promise((resolve) => {
        transaction.commit((error, results) => resolve([error, results]));
    });
}

async function multi(zk) {
    const path = BASE + '/multi';
    const [none, results] = await commit(zk.raw.transaction()
        .create(path)
        .create(path + '/a', Buffer.from('1'))
        .setData(path + '/a', Buffer.from('2'))
        .check(path + '/a', 1)
        .create(path + '/s-', CreateMode.PERSISTENT_SEQUENTIAL)
        .remove(path + '/a', 1));
    expect('error', none, null);
    expect('results', results.length, 6);
    expect('made', results[1].path, path + '/a');
    expect('set', results[2].stat.version, 1);
    expect('sequence', results[4].path, path + '/s-0000000001');
    expect('children', (await zk.getChildren2(path))[0], ['s-0000000001']);

    const [error, errors] = await commit(zk.raw.transaction()
        .create(path + '/b')
        .setData(path, Buffer.from('no'), 7)
        .create(path + '/c'));
    expect('error', error.code, Exception.BAD_VERSION);
    expect('codes', errors.map((result) => result.err),
        [Exception.OK, Exception.BAD_VERSION, Exception.RUNTIME_INCONSISTENCY]);
    expect('nothing of it happened', (await zk.getChildren2(path))[0], ['s-0000000001']);
    expect('data', (await zk.getData(path))[0], undefined);
}

async function acl(zk, address) {
    const path = BASE + '/secret';
    const owner = await new Client(address, 10_000).connect();
    owner.raw.addAuthInfo('digest', Buffer.from('bob:secret'));
    await owner.create(path, Buffer.from('treasure'), ACL.CREATOR_ALL_ACL);
    const [entries, stat] = await owner.getACL(path);
    expect('entries', entries.length, 1);
    expect('permission', entries[0].permission, Permission.ALL);
    expect('scheme', entries[0].id.scheme, 'digest');
    expect('user', entries[0].id.id.split(':')[0], 'bob');
    expect('aversion', stat.aversion, 0);
    expect('owner reads', (await owner.getData(path))[0], 'treasure');
    const denied = async () => {
        await expectError('NO_AUTH', zk.getData(path));
        await expectError('NO_AUTH', zk.setData(path, Buffer.from('mine')));
        await expectError('NO_AUTH', zk.getChildren(path));
        await expectError('NO_AUTH', zk.create(path + '/child'));
        await expectError('NO_AUTH', zk.setACL(path, ACL.OPEN_ACL_UNSAFE));
    };
    await denied();
    zk.raw.addAuthInfo('digest', Buffer.from('eve:guess'));
    await denied();
    const anyone = new ACL(Permission.READ, Id.ANYONE_ID_UNSAFE);
    expect('aversion', (await owner.setACL(path, [...entries, anyone], 0)).aversion, 1);
    expect('allowed now', (await zk.getData(path))[0], 'treasure');
    await expectError('NO_AUTH', zk.setData(path, Buffer.from('mine')));
    await owner.remove(path);
    await owner.close();
}

// A restart of the server keeps the session, its ephemeral node, its watches and all data.
async function reconnect(zk, how) {
    const path = BASE + '/' + how + '-ephemeral';
    const kept = BASE + '/' + how + '-kept';
    await zk.create(path, Buffer.from('mine'), CreateMode.EPHEMERAL);
    await zk.create(kept, Buffer.from('kept'));
    const watch = new Watch();
    const written = await zk.exists(kept, watch.watcher);
    const session = zk.session();
    const disconnected = zk.state(State.DISCONNECTED);
    const connected = disconnected.then(() => zk.state(State.SYNC_CONNECTED));
    await ask(how);
    await connected;
    expect('session', zk.session(), session);
    const [data, stat] = await zk.getData(path);
    expect('data of the ephemeral node', data, 'mine');
    expect('its owner', stat.ephemeralOwner.toString('hex'), session);
    expect('data and stat kept', await zk.getData(kept), ['kept', written]);
    await zk.setData(kept, Buffer.from('more'), 0);
    await watch.expect(Event.NODE_DATA_CHANGED, kept);
}

async function close(zk, address) {
    const other = await new Client(address, 10_000).connect();
    const path = BASE + '/restart-ephemeral';
    const watch = new Watch();
    const stat = await other.exists(path, watch.watcher);
    expect('owner', stat.ephemeralOwner.toString('hex'), zk.session());
    await zk.close();
    await watch.expect(Event.NODE_DELETED, path);
    await remove(other, BASE);
    expect('cleaned', await other.exists(BASE), null);
    await other.close();
}

// The library's own removeRecursive looks one level deep only.
async function remove(zk, path) {
    for (const name of await zk.getChildren(path)) {
        await remove(zk, path + '/' + name);
    }
    await zk.remove(path);
}

async function scenario(address) {
    say('step connect');
    const zk = await new Client(address, 10_000).connect();
    expect('timeout', zk.raw.getSessionTimeout(), 10_000);
    await zk.create(BASE);
    const steps = {
        'create-read': () => createRead(zk),
        'versions': () => versions(zk),
        'children': () => children(zk),
        'sequence': () => sequence(zk),
        'ephemeral-closed': () => ephemeralClosed(zk, address),
        'ephemeral-expired': () => ephemeralExpired(zk),
        'watches': () => watches(zk),
        'multi': () => multi(zk),
        'acl': () => acl(zk, address),
        'restart': () => reconnect(zk, 'restart'),
        'crash': () => reconnect(zk, 'crash'),
        'close': () => close(zk, address),
    };
    for (const [name, step] of Object.entries(steps)) {
        say('step ' + name);
        await step();
    }
    say('passed');
}

async function main() {
    const [address, mode, path] = process.argv.slice(2);
    try {
        if (mode === 'hold') {
            const zk = await new Client(address, 2_000).connect();
            await zk.create(path, CreateMode.EPHEMERAL);
            say('holding');
            return;
        }
        await scenario(address);
        process.exit(0);
    } catch (error) {
        console.error(error);
        say('failed ' + String(error.message).split('\n')[0]);
        process.exit(1);
    }
}

main();
