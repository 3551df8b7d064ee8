/** Plays scenarios one after another, and prints their outcomes as pytest does. */
'use strict'

const LIMIT_MS = 60_000
const LOOK_INTERVAL_MS = 50

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

/** Wait until a condition holds, and return its value. */
async function until(condition) {
  for (;;) {
    const value = await condition()
    if (value) return value
    await sleep(LOOK_INTERVAL_MS)
  }
}

/** Expect that a promise is rejected. */
async function refused(promise) {
  const error = await promise.then(() => null, (reason) => reason)
  if (!error) throw new Error('this should have failed')
  return error
}

/** Each scenario gets a stage of its own, which is closed after it. */
async function play(name, scenarios, makeStage) {
  // @platformatic/kafka throws where nobody can catch it when a connection ends while it is opened.
  process.on('uncaughtException', console.error)
  for (const scenario of scenarios) {
    const stage = makeStage()
    let timer
    const limit = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error('took too long')), LIMIT_MS)
    })
    let outcome = 'PASSED'
    try {
      await Promise.race([limit, stage.begin().then(() => scenario(stage))])
    } catch (error) {
      outcome = 'FAILED'
      console.error(error)
    }
    clearTimeout(timer)
    await Promise.race([stage.close().catch(console.error), sleep(LIMIT_MS)])
    console.log(`${name}::${scenario.name} ${outcome}`)
  }
  process.exit(0)
}

module.exports = { play, refused, sleep, until }
