/**
 * What a consumer of the tests says to its parent: the words of gateway/demo/reports.py, one JSON
 * object per line, times in seconds of CLOCK_MONOTONIC; and how it is asked to end.
 */
'use strict'

const { readFileSync } = require('node:fs')
const { parseArgs } = require('node:util')

const CLOSE_LIMIT_MS = 15_000

/** The command line that all consumers of the tests understand. */
function options() {
  const text = { type: 'string' }
  const { values } = parseArgs({
    options: {
      bootstrap: text,
      topic: text,
      group: text,
      'client-id': text,
      protocol: text,
      assignor: text,
      security: text,
      'session-timeout-ms': { ...text, default: '6000' },
    },
  })
  return values
}

/** TLS and SCRAM as kafkajs takes them, from a file of NAME=VALUE lines; nothing without a file. */
function security(path) {
  if (!path) return {}
  const lines = readFileSync(path, 'utf8').split('\n')
  const { ca, username, password } = Object.fromEntries(lines.map((each) => each.split('=', 2)))
  return {
    ssl: { ca: [readFileSync(ca, 'utf8')] },
    sasl: { mechanism: 'scram-sha-256', username, password },
  }
}

function say(kind, fields) {
  const report = { kind, at_s: Number(process.hrtime.bigint()) / 1e9, ...fields }
  process.stdout.write(JSON.stringify(report) + '\n')
}

/** Partitions that this process owns, reported as they change. */
class Owned {
  #partitions = new Set()

  /** All that is owned from now on. */
  become(partitions) {
    this.giveUp('revoked', [...this.#partitions].filter((each) => !partitions.includes(each)))
    const added = partitions.filter((each) => !this.#partitions.has(each)).sort((a, b) => a - b)
    if (added.length > 0) {
      added.forEach((each) => this.#partitions.add(each))
      say('assigned', { partitions: added })
    }
  }

  /** How: revoked, or lost if the coordinator had thrown this member out. */
  giveUp(how, partitions = [...this.#partitions]) {
    if (partitions.length > 0) {
      partitions.forEach((each) => this.#partitions.delete(each))
      say(how, { partitions: partitions.sort((a, b) => a - b) })
    }
  }
}

function consumed(partition, numbers) {
  say('consumed', { partition, runs: numbers.map((number) => [number, number + 1, 1]) })
}

/** What the coordinator has acknowledged: pairs of partition and next offset. */
function committed(offsets) {
  say('committed', { offsets })
}

function troubled(doing, error) {
  say('troubled', { doing, error: String(error?.message ?? error) })
}

/** Close in good order at the end of stdin or on SIGTERM, and end, in any case. */
function closeWhenAsked(close) {
  let asked = false
  const ask = async () => {
    if (asked) return
    asked = true
    setTimeout(() => process.exit(1), CLOSE_LIMIT_MS)
    await close()
    say('closed', {})
    process.exit(0)
  }
  process.stdin.on('end', ask).resume()
  process.on('SIGTERM', ask)
}

module.exports = { Owned, closeWhenAsked, committed, consumed, options, security, troubled }
